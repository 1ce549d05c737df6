"""Baselines that take turns at one product in host memory."""

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.common.blas_threads import BlasThreads
from benchmarks.common.operands import Matrix, Operands, poison
from benchmarks.common.projection import Projection
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.rows import HostRow
from benchmarks.host.suite import Group

LEAST_TURNS: Final = 3
SLOW_SECONDS: Final = 2.0
"""A baseline that takes as long has one turn at least, in place of LEAST_TURNS."""

USUAL_TURNS: Final = 9
SHORT_SECONDS: Final = 2e-3
"""Turns shorter than this differ by more: there are up to `Baseline.turns` of them."""

_TUNING_SHARE: Final = 0.5
"""Of the time of a contest, when all get ready and compute the product for the first time."""

Refuse = Callable[[Baseline, str], None]


@dataclass(slots=True)
class HostScore:
    """Seconds of one baseline's turns, and of its first product, which may not count."""

    trial_seconds: float
    seconds: list[float] = field(default_factory=list)

    @property
    def least_turns(self) -> int:
        """Turns that it takes even if time runs out."""
        return LEAST_TURNS if self.trial_seconds <= SLOW_SECONDS else 1

    @property
    def most_turns(self) -> int:
        """Turns that it takes if there is time."""
        is_short = bool(self.seconds) and self.seconds[0] < SHORT_SECONDS
        return Baseline.turns if is_short else USUAL_TURNS


class HostContest:
    """One product and those that compute it.

    Args:
        operands: The product, in the memory that all of them use.
        projection: Checks their products.
        blas: Wakes the BLAS threads for those that want them.
        wake_gpu: Called after the turns of these, in which the GPU idles; None without one.
    """

    def __init__(
        self,
        operands: Operands,
        projection: Projection,
        blas: BlasThreads,
        wake_gpu: Callable[[], None] | None = None,
    ) -> None:
        self._operands = operands
        self._projection = projection
        self._blas = blas
        self._wake_gpu = wake_gpu

    def run(
        self, baselines: Sequence[Baseline], until: float, refuse: Refuse
    ) -> dict[Baseline, HostScore]:
        """Let all compute the product, check it, and then let them take turns.

        Args:
            baselines: Who takes part.
            until: Value of time.perf_counter() at which it should be over.
            refuse: Told of those that fail.
        """
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
        """Let one get ready and compute the product for the first time; None if it stands aside.

        Raises:
            WrongProductError: What it computes is not the product.
        """
        if not baseline.prepare(self._operands, until):
            return None
        poison(self._operands.c)
        seconds, product = self._time(baseline)
        error = self._projection.find_error(product)
        if not error <= 1.0:
            raise WrongProductError(f"the product is off by {error:.3g} of what rounding explains")
        return HostScore(seconds, [] if baseline.warms_up else [seconds])

    def _take_turns(self, scores: dict[Baseline, HostScore], until: float, refuse: Refuse) -> None:
        """In another order each time: what ran before sways caches and clocks."""
        order = list(scores)
        for turn in range(max((one.turns for one in order), default=0)):
            random.Random(turn).shuffle(order)
            for baseline in list(order):
                score = scores[baseline]
                taken = len(score.seconds)
                due = taken < score.least_turns or time.perf_counter() <= until
                if taken > turn or taken >= min(baseline.turns, score.most_turns) or not due:
                    continue
                try:
                    score.seconds.append(self._time(baseline)[0])
                except Exception as error:
                    refuse(baseline, f"{type(error).__name__}: {error}")
                    order.remove(baseline)
                    del scores[baseline]

    def _time(self, baseline: Baseline) -> tuple[float, Matrix]:
        awake = self._blas.wake_all() if baseline.wakes_blas else contextlib.nullcontext()
        with awake:
            started = time.perf_counter()
            product = baseline.multiply(self._operands)
            seconds = time.perf_counter() - started
        if baseline.wakes_blas and self._wake_gpu is not None:
            self._wake_gpu()
        return seconds, product


class WrongProductError(Exception):
    """What a baseline computed is not A·B."""


def make_host_rows(
    operands: Operands,
    scores: dict[Baseline, HostScore],
    *,
    limit_seconds: float | None = None,
    group: Group = "suite",
) -> list[HostRow]:
    """The rows of one contest.

    Args:
        operands: The product.
        scores: What was found.
        limit_seconds: The least time of the GPU alone; None where it was not measured.
        group: Why the product is measured.
    """
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
                spread=(max(score.seconds) - min(score.seconds)) / median,
                turns=len(score.seconds),
                settings=baseline.settings,
                group=group,
            )
        )
    return rows
