"""Kernels that take turns at one product on the GPU.

All multiply the same random operands, turn by turn in one run, so that clocks and temperature are
the same for all.
"""

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.exact import ExactProduct
from benchmarks.measured import Row, Shape
from benchmarks.meter import Meter, Reading
from benchmarks.suite import Contestant, count_flops
from kernels.catalog import KernelSpec
from kernels.device import DeviceInfo
from kernels.errors import DeviceFailure, KernelsError
from kernels.timing import Burst, ResidentProduct

LEAST_TURNS: Final = 3
TURN_SECONDS: Final = 3e-3
MOST_LAUNCHES: Final = 20
"""Short products are launched several times a turn, one behind the other."""

MOST_SECONDS: Final = 4.0
"""A kernel that took this long at one product takes no more turns there, once it had some."""

AHEAD_BYTES: Final = 2**33
AHEAD_SECONDS: Final = 1.5e-3
"""What filling so much memory takes an H200, less some; in it the host enqueues a turn, or most of
it: enqueueing a product takes longer than computing a small one."""

WATCH_SECONDS: Final = 1e-3
CHECKED_ROWS: Final = 32
CHECKED_COLUMNS: Final = 64


@dataclass(slots=True)
class Score:
    """What is found of one contestant.

    Attributes:
        launches: Launches in a turn.
        max_relative_error: Largest error of the elements that are checked.
        same_bits: Whether both its products had the same bits.
        seconds: Mean of a launch in every turn.
        readings: Clock and power in these turns.
    """

    launches: int
    max_relative_error: float
    same_bits: bool
    seconds: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def spent_seconds(self) -> float:
        """GPU time of all turns."""
        return sum(self.seconds) * self.launches


class Contest:
    """One product and those that compute it.

    Args:
        shape: M, N, K.
        dtype: Element type.
        device: The GPU.
        cache_dir: Folder of compiled kernels.
        generator: A cupy.random.Generator, for the operands: uniform in -1…1.
        meter: Reads the GPU.

    Raises:
        DeviceFailure: The GPU has no room for the operands.
    """

    def __init__(
        self,
        shape: Shape,
        dtype: str,
        *,
        device: DeviceInfo,
        cache_dir: Path,
        generator: Any,
        meter: Meter,
    ) -> None:
        m, n, k = shape
        with _refuse_memory():
            self._product = ResidentProduct(
                (generator.random((m, k)) * 2 - 1).astype(dtype),
                (generator.random((k, n)) * 2 - 1).astype(dtype),
                device_index=device.index,
                cache_dir=cache_dir,
                filler_bytes=min(AHEAD_BYTES, device.memory_bytes // 16),
            )
        self._meter = meter
        rows = slice(None, None, max(1, m // CHECKED_ROWS))
        columns = slice(None, None, max(1, n // CHECKED_COLUMNS))
        self._checked = rows, columns
        samples = _fetch(self._product.a[rows]), _fetch(self._product.b[:, columns])
        self._reference = ExactProduct(*samples)

    def admit(self, contestant: Contestant) -> Score:
        """Compute the product, which also compiles and loads; then again, timed, to compare both.

        Raises:
            KernelsError: It fails, or what it computes is not finite.
        """
        spec, sms, product = contestant.spec, contestant.sms, self._product
        with _refuse_memory():
            product.compute(spec, sms=sms)
            first = product.c.copy()
            product.c.fill(np.nan)
            trial = product.time_burst(spec, 1, sms=sms)
            same_bits = bool((_as_bits(first) == _as_bits(product.c)).all())
            del first
            errors = self._reference.find_relative_errors(_fetch(product.c[self._checked]))
        largest = float(errors.max())
        if not math.isfinite(largest):
            raise DeviceFailure(f"{contestant.label}: the product is not finite")
        return Score(count_launches(trial), largest, same_bits)

    def take_turn(self, contestant: Contestant, score: Score) -> None:
        """Let it run once more, and note seconds, clock and power."""

        def watch() -> None:
            score.readings.append(self._meter.read())
            time.sleep(WATCH_SECONDS)

        burst = self._product.time_burst(
            contestant.spec,
            score.launches,
            sms=contestant.sms,
            watch=watch if self._meter.works else None,
        )
        score.seconds.append(burst.seconds)


def count_launches(trial: Burst) -> int:
    """Launches of a turn: some if they are short, but not more than the host enqueues in time.

    Args:
        trial: A launch of it.
    """
    behind_seconds = max(trial.enqueue_seconds - trial.seconds, 1e-9)
    fitting = min(TURN_SECONDS / trial.seconds, AHEAD_SECONDS / behind_seconds, MOST_LAUNCHES)
    return max(1, round(fitting))


def take_turns(
    wanted: Sequence[int],
    spent: Callable[[int], float],
    take_turn: Callable[[int], None],
    in_time: Callable[[], bool],
) -> None:
    """Let contestants take turns, in another order each time: what ran before sways the clocks.

    Args:
        wanted: Turns of each, if there is time; each takes LEAST_TURNS even if there is not.
        spent: Seconds that one has spent so far, by its place.
        take_turn: Lets one run.
        in_time: Whether there is time.
    """
    order = list(range(len(wanted)))
    for turn in range(max(wanted, default=0)):
        random.Random(turn).shuffle(order)
        for place in order:
            due = turn < LEAST_TURNS or (spent(place) < MOST_SECONDS and in_time())
            if turn < wanted[place] and due:
                take_turn(place)


def find_rates(shape: Shape, scores: dict[Contestant, Score]) -> dict[Contestant, float]:
    """TFLOP/s of each, at the median of its turns."""
    return {
        one: count_flops(shape) / statistics.median(score.seconds) / 1e12
        for one, score in scores.items()
    }


def make_rows(
    shape: Shape,
    scores: dict[Contestant, Score],
    sm_count: int,
    full_rates: dict[KernelSpec, float] | None = None,
) -> list[Row]:
    """The rows of one contest.

    Args:
        shape: M, N, K.
        scores: What was found.
        sm_count: Multiprocessors of the GPU.
        full_rates: TFLOP/s that all multiprocessors reached, for kernels held to some of them.
    """
    rates = find_rates(shape, scores)
    cublas = {one.sms: one for one in scores if one.spec.source is None}
    rows = []
    for one, score in scores.items():
        spec, rate, peer = one.spec, rates[one], cublas.get(one.sms)
        median = statistics.median(score.seconds)
        full = full_rates.get(spec) if full_rates else None
        rows.append(
            Row(
                *(spec.name, str(spec.tile), spec.dtype, spec.accuracy, *shape),
                sms=one.sms or sm_count,
                tflops=rate,
                ratio_to_cublas=rate / rates[peer] if peer else None,
                max_relative_error=score.max_relative_error,
                cublas_max_relative_error=scores[peer].max_relative_error if peer else None,
                median_seconds=median,
                spread=(max(score.seconds) - min(score.seconds)) / median,
                turns=len(score.seconds),
                launches=score.launches,
                same_bits=score.same_bits,
                clock_mhz=_find_median([reading.clock_mhz for reading in score.readings]),
                power_watts=_find_median([reading.power_watts for reading in score.readings]),
                rate_share=rate / (full * one.sms / sm_count) if one.sms and full else None,
            )
        )
    return rows


def admit_all(
    contest: Contest, contestants: Sequence[Contestant], refuse: Callable[[Contestant, str], None]
) -> dict[Contestant, Score]:
    """The contestants that work; `refuse` is told of the others.

    Raises:
        DeviceFailure: After it nothing works any more.
    """
    scores = {}
    for contestant in contestants:
        try:
            scores[contestant] = contest.admit(contestant)
        except KernelsError as error:
            refuse(contestant, str(error))
            if isinstance(error, DeviceFailure) and error.poisoned:
                raise
    return scores


def _find_median(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return statistics.median(told) if told else None


def _fetch(array: Any) -> Any:
    import cupy

    return cupy.asnumpy(array)


def _as_bits(array: Any) -> Any:
    return array.view(np.dtype(f"uint{8 * array.itemsize}"))


@contextlib.contextmanager
def _refuse_memory() -> Iterator[None]:
    """CuPy's lack of memory as this project's error."""
    import cupy

    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceFailure(str(error)) from error
