"""Kernels that take turns at one product on the GPU.

All multiply the same random operands, turn by turn in one run, so that clocks and temperature are
the same for all.
"""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common.exact import ExactProduct
from benchmarks.kernels.measured import Shape
from benchmarks.kernels.meter import Meter
from benchmarks.kernels.score import Score
from benchmarks.kernels.suite import Contestant
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.kernels.timing.seconds import Burst, ResidentProduct

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

WATCH_SECONDS: Final = 2e-4
CHECKED_ROWS: Final = 32
CHECKED_COLUMNS: Final = 64


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
            reading = self._meter.read_if_due()
            if reading is not None:
                score.readings.append(reading)
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
