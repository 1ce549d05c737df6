"""Kernels that take turns at one product on the GPU, all with the same random operands."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common.shapes import Shape
from benchmarks.common.turns import take_turns
from benchmarks.kernels.rows import Score
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure, KernelsError, translate_failures
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.seconds import Burst, DeviceProduct
from wavetrim.native.element_types import find_dtype, find_limits

LEAST_TURNS: Final = 3
TURN_SECONDS: Final = 3e-3
MOST_LAUNCHES: Final = 20
"""Short products are launched several times a turn: for about TURN_SECONDS, at most
MOST_LAUNCHES times; chosen."""

MOST_SECONDS: Final = 4.0
"""GPU time after which a kernel takes no more than LEAST_TURNS at a product; chosen."""

AHEAD_BYTES: Final = 2**33
AHEAD_SECONDS: Final = 1.5e-3
"""The GPU fills AHEAD_BYTES, for AHEAD_SECONDS, while the host enqueues a turn: enqueueing a small
product takes longer than computing it. Measured on an H200, rounded down."""

CHECKED_ROWS: Final = 32
CHECKED_COLUMNS: Final = 64
MOST_ERROR: Final = 4.0
"""Rows and columns of C that are checked, and the largest error of an element over |A|·|B| and the
type's precision; chosen. Right kernels had 1.7 at most."""


class Contest:
    """One product, its operands uniform in -1…1 on the GPU, and the kernels that compute it."""

    def __init__(
        self, shape: Shape, dtype: str, *, device: DeviceInfo, cache_dir: Path, generator: Any
    ) -> None:
        m, n, k = shape
        with translate_failures():
            self._product = DeviceProduct(
                (generator.random((m, k)) * 2 - 1).astype(dtype),
                (generator.random((k, n)) * 2 - 1).astype(dtype),
                device_index=device.index,
                cache_dir=cache_dir,
                filler_bytes=min(AHEAD_BYTES, device.memory_bytes // 16),
            )
        rows = slice(None, None, max(1, m // CHECKED_ROWS))
        columns = slice(None, None, max(1, n // CHECKED_COLUMNS))
        self._checked = rows, columns
        a, b = _fetch(self._product.a[rows]), _fetch(self._product.b[:, columns])
        self._expected, self._scale = a @ b, np.abs(a) @ np.abs(b)
        self._precision = float(find_limits(find_dtype(dtype)).eps)

    def admit(self, spec: KernelSpec) -> Score:
        """Compute the product, which also compiles and loads; then again, timed; check it."""
        product = self._product
        with translate_failures():
            product.compute(spec)
            product.c.fill(np.nan)
            trial = product.time_burst(spec, 1)
            errors = np.abs(_fetch(product.c[self._checked]) - self._expected) / self._scale
        largest = float(errors.max()) / self._precision
        if not largest <= MOST_ERROR:
            raise DeviceFailure(f"{spec.label}: off by {largest:.3g} times what rounding explains")
        return Score(count_launches(trial))

    def measure(self, spec: KernelSpec, score: Score) -> None:
        """Let a kernel take a turn."""
        burst = self._product.time_burst(spec, score.launches)
        score.seconds.append(burst.seconds)


def count_launches(trial: Burst) -> int:
    """Launches of a turn: several if they are short, as many as the host enqueues in time."""
    behind_seconds = max(trial.enqueue_seconds - trial.seconds, 1e-9)
    fitting = min(TURN_SECONDS / trial.seconds, AHEAD_SECONDS / behind_seconds, MOST_LAUNCHES)
    return max(1, round(fitting))


def run_contest(
    contest: Contest,
    scores: Mapping[KernelSpec, Score],
    turns: Mapping[KernelSpec, int],
    until: float,
) -> None:
    """Let kernels take turns; each takes LEAST_TURNS even if there is no time."""
    for turn, (spec, score) in take_turns(scores.items(), max(turns.values(), default=0)):
        in_time = score.spent_seconds < MOST_SECONDS and time.perf_counter() < until
        if turn < turns[spec] and (turn < LEAST_TURNS or in_time):
            contest.measure(spec, score)


def admit_all(
    contest: Contest, specs: Iterable[KernelSpec], refuse: Callable[[KernelSpec, str], None]
) -> dict[KernelSpec, Score]:
    """The kernels that work; `refuse` is called with the others."""
    scores = {}
    for spec in specs:
        try:
            scores[spec] = contest.admit(spec)
        except KernelsError as error:
            refuse(spec, str(error))
            if isinstance(error, DeviceFailure) and error.poisoned:
                raise
    return scores


def _fetch(array: Any) -> Any:
    import cupy

    return cupy.asnumpy(array).astype(np.float64)
