"""Contenders that take turns at one product in host memory."""

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.blas_threads import BlasThreads
from benchmarks.contenders.contender import Contender
from benchmarks.host_rows import HostRow
from benchmarks.operands import Matrix, Operands, poison
from benchmarks.projection import Projection

LEAST_TURNS: Final = 3
SLOW_SECONDS: Final = 2.0
"""A contender that takes so long has one turn at least, in place of LEAST_TURNS."""

_TUNING_SHARE: Final = 0.5
"""Of the time of a contest, when all get ready and compute the product for the first time."""

Refuse = Callable[[Contender, str], None]


@dataclass(slots=True)
class HostScore:
    """Seconds of one contender's turns, and of its first product, which may not count."""

    trial_seconds: float
    seconds: list[float] = field(default_factory=list)

    @property
    def least_turns(self) -> int:
        """Turns that it takes even if time runs out."""
        return LEAST_TURNS if self.trial_seconds <= SLOW_SECONDS else 1


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
        self, contenders: Sequence[Contender], until: float, refuse: Refuse
    ) -> dict[Contender, HostScore]:
        """Let all compute the product, check it, and then let them take turns.

        Args:
            contenders: Who takes part.
            until: Value of time.perf_counter() at which it should be over.
            refuse: Told of those that fail.
        """
        share = _TUNING_SHARE * (until - time.perf_counter()) / max(1, len(contenders))
        scores: dict[Contender, HostScore] = {}
        for contender in contenders:
            try:
                score = self.admit(contender, time.perf_counter() + share)
            except Exception as error:
                refuse(contender, f"{type(error).__name__}: {error}")
                continue
            if score is not None:
                scores[contender] = score
        self._take_turns(scores, until, refuse)
        return scores

    def admit(self, contender: Contender, until: float) -> HostScore | None:
        """Let one get ready and compute the product for the first time; None if it stands aside.

        Raises:
            WrongProductError: What it computes is not the product.
        """
        if not contender.prepare(self._operands, until):
            return None
        poison(self._operands.c)
        seconds, product = self._time(contender)
        error = self._projection.find_error(product)
        if not error <= 1.0:
            raise WrongProductError(f"the product is off by {error:.3g} of what rounding explains")
        return HostScore(seconds, [] if contender.warms_up else [seconds])

    def _take_turns(self, scores: dict[Contender, HostScore], until: float, refuse: Refuse) -> None:
        """In another order each time: what ran before sways caches and clocks."""
        order = list(scores)
        for turn in range(max((one.turns for one in order), default=0)):
            random.Random(turn).shuffle(order)
            for contender in list(order):
                score = scores[contender]
                taken = len(score.seconds)
                due = taken < score.least_turns or time.perf_counter() <= until
                if taken > turn or taken == contender.turns or not due:
                    continue
                try:
                    score.seconds.append(self._time(contender)[0])
                except Exception as error:
                    refuse(contender, f"{type(error).__name__}: {error}")
                    order.remove(contender)
                    del scores[contender]

    def _time(self, contender: Contender) -> tuple[float, Matrix]:
        awake = self._blas.wake_all() if contender.wakes_blas else contextlib.nullcontext()
        with awake:
            started = time.perf_counter()
            product = contender.multiply(self._operands)
            seconds = time.perf_counter() - started
        if contender.wakes_blas and self._wake_gpu is not None:
            self._wake_gpu()
        return seconds, product


class WrongProductError(Exception):
    """What a contender computed is not A·B."""


def make_host_rows(
    operands: Operands,
    scores: dict[Contender, HostScore],
    *,
    limit_seconds: float | None,
    sm_count: int | None,
) -> list[HostRow]:
    """The rows of one contest.

    Args:
        operands: The product.
        scores: What was found.
        limit_seconds: The least time of the GPU alone; None without one.
        sm_count: Multiprocessors of the GPU; None without one.
    """
    rows = []
    for contender, score in scores.items():
        median = statistics.median(score.seconds)
        f, f_actual = contender.rows_on_cpu
        rows.append(
            HostRow(
                *operands.shape,
                dtype=operands.dtype,
                memory=operands.memory,
                sms=contender.sms or sm_count,
                contender=contender.name,
                seconds=median,
                limit_seconds=limit_seconds,
                f=f,
                f_actual=f_actual,
                spread=(max(score.seconds) - min(score.seconds)) / median,
                turns=len(score.seconds),
                settings=contender.settings,
            )
        )
    return rows
