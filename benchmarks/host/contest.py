"""Baselines that take turns at one product in host memory."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, Operands, poison
from benchmarks.common.turns import find_spread, take_turns
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.machine import BlasThreads
from benchmarks.host.results import HostRow
from benchmarks.host.suite import Group

LEAST_TURNS: Final = 3
SLOW_SECONDS: Final = 2.0
FAR_RATIO: Final = 5.0
"""A baseline whose first product takes longer than SLOW_SECONDS, or FAR_RATIO times as long as the
fastest one's, takes at least one turn, not LEAST_TURNS: others need the time more. Chosen."""

USUAL_TURNS: Final = 9
SHORT_SECONDS: Final = 2e-3
SHORT_TURNS: Final = 9
"""Shorter turns vary more, so there are up to `Baseline.turns` of them, and at least SHORT_TURNS,
which cost no time; chosen. NumPy takes three, because the machine has to rest after each."""

REPEATED_SECONDS: Final = 0.05
"""A turn at a shorter product is two calls: the first one comes after another baseline's work and
finds caches, cores and clocks as that left them; the second one is as in a user's loop. Chosen."""

_TUNING_SHARE: Final = 0.5
"""Share of a contest's time for getting ready and the first product of each; chosen."""

Refuse = Callable[[Baseline, str], None]


class WrongProductError(Exception):
    """A baseline's result is not A·B."""


@dataclass(slots=True)
class HostScore:
    """Seconds of one baseline's turns, and of its first product, which may not count.

    Attributes:
        trial_seconds: Time of its first product.
        seconds: Time of the last call of each turn.
        first_seconds: Time of the first call of each turn that has two.
    """

    trial_seconds: float
    seconds: list[float] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)

    def count_least_turns(self, fastest_seconds: float, *, rests: bool = False) -> int:
        """Turns that it takes even if time runs out.

        Args:
            fastest_seconds: Time of the fastest baseline's first product.
            rests: Whether the machine has to rest after each turn.
        """
        if self.is_short and not rests:
            return SHORT_TURNS
        most_seconds = min(SLOW_SECONDS, FAR_RATIO * fastest_seconds)
        return LEAST_TURNS if self.trial_seconds <= most_seconds else 1

    @property
    def most_turns(self) -> int:
        """Turns that it takes if time allows."""
        return Baseline.turns if self.is_short else USUAL_TURNS

    @property
    def is_short(self) -> bool:
        """Whether its first turn was short."""
        return bool(self.seconds) and self.seconds[0] < SHORT_SECONDS


class HostContest:
    """One product and the baselines that compute it.

    Args:
        operands: The product, in the memory that all of them use.
        check: Checks their products.
        blas: Wakes the BLAS threads for baselines that use them.
        wake_gpu: Called after turns of such baselines, in which the GPU idles; None without a GPU.
    """

    def __init__(
        self,
        operands: Operands,
        check: FreivaldsCheck,
        blas: BlasThreads,
        wake_gpu: Callable[[], None] | None = None,
    ) -> None:
        self._operands = operands
        self._check = check
        self._blas = blas
        self._wake_gpu = wake_gpu

    def run(
        self, baselines: Sequence[Baseline], until: float, refuse: Refuse
    ) -> dict[Baseline, HostScore]:
        """Let all compute the product, check it, and then let them take turns."""
        share = _TUNING_SHARE * (until - time.perf_counter()) / max(1, len(baselines))
        scores: dict[Baseline, HostScore] = {}
        for baseline in baselines:
            try:
                score = self.admit(baseline, time.perf_counter() + share)
            except Exception as error:
                refuse(baseline, f"{type(error).__name__}: {error}")
                continue
            if score is not None:
                scores[baseline] = score
        self._take_turns(scores, until, refuse)
        return scores

    def admit(self, baseline: Baseline, until: float) -> HostScore | None:
        """Let a baseline prepare and compute a first product; None if it does not take part.

        Raises:
            WrongProductError: Its result is not the product.
        """
        if not baseline.prepare(self._operands, until):
            return None
        poison(self._operands.c)
        (seconds,), product = self._time(baseline)
        error = self._check.find_error(product)
        if not error <= 1.0:
            raise WrongProductError(f"the product is off by {error:.3g} of what rounding explains")
        counts = not baseline.warms_up and seconds >= REPEATED_SECONDS
        return HostScore(seconds, [seconds] if counts else [])

    def _take_turns(self, scores: dict[Baseline, HostScore], until: float, refuse: Refuse) -> None:
        rounds = max((one.turns for one in scores), default=0)
        fastest_seconds = min((one.trial_seconds for one in scores.values()), default=0.0)
        for turn, baseline in take_turns(scores, rounds, seed=str(self._operands.problem)):
            score = scores.get(baseline)
            taken = len(score.seconds) if score else 0
            if score is None or turn < taken or taken >= min(baseline.turns, score.most_turns):
                continue
            least_turns = score.count_least_turns(fastest_seconds, rests=baseline.wakes_blas)
            if taken >= least_turns and time.perf_counter() > until:
                continue
            try:
                calls = 2 if score.trial_seconds < REPEATED_SECONDS else 1
                *first_seconds, seconds = self._time(baseline, calls=calls)[0]
                score.first_seconds += first_seconds
                score.seconds.append(seconds)
            except Exception as error:
                refuse(baseline, f"{type(error).__name__}: {error}")
                del scores[baseline]

    def _time(self, baseline: Baseline, *, calls: int = 1) -> tuple[list[float], Matrix]:
        """Seconds of calls in succession, and the product of the last one."""
        seconds = []
        with self._blas.wake_all(wanted=baseline.wakes_blas):
            for _ in range(calls):
                started = time.perf_counter()
                product = baseline.multiply(self._operands)
                seconds.append(time.perf_counter() - started)
        if baseline.wakes_blas and self._wake_gpu is not None:
            self._wake_gpu()
        return seconds, product


def make_host_rows(
    operands: Operands,
    scores: dict[Baseline, HostScore],
    *,
    limit_seconds: float | None = None,
    group: Group = "suite",
) -> list[HostRow]:
    """The rows of one contest."""
    rows = []
    for baseline, score in scores.items():
        median = statistics.median(score.seconds)
        f, f_actual = baseline.rows_on_cpu
        rows.append(
            HostRow(
                *operands.shape,
                dtype=operands.dtype,
                memory=operands.memory,
                baseline=baseline.name,
                seconds=median,
                limit_seconds=limit_seconds,
                f=f,
                f_actual=f_actual,
                first_seconds=statistics.median(score.first_seconds or [median]),
                spread=find_spread(score.seconds, median),
                turns=len(score.seconds),
                settings=baseline.settings,
                group=group,
            )
        )
    return rows
