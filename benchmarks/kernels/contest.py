"""Kernels that take turns at one product on the GPU: which, for how long, and their contest."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common.shapes import DTYPES, Shape, count_flops, make_cube
from benchmarks.common.turns import take_turns
from benchmarks.kernels.rows import Score
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure, KernelsError, translate_failures
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.seconds import Burst, DeviceProduct
from wavetrim.native.element_types import find_dtype, find_limits

KERNEL_DTYPES: Final = (*DTYPES, "float16", "bfloat16")
"""Element types of the measured kernels."""

SQUARES: Final = (4096, 8192, 16384)
"""M = N = K whose speeds are shown."""

ALL_SHAPES: Final[tuple[Shape, ...]] = (
    *map(make_cube, (1024, 2048, *SQUARES)),
    (3456, 4096, 4096),
    (4224, 4224, 4224),
    (8192, 512, 4096),
    (512, 8192, 8192),
    (8192, 8192, 256),
    (65536, 256, 256),
    (333, 4099, 1021),
    (4096, 11008, 4096),
    (4224, 4096, 1024),
    (2176, 8192, 4096),
    (1408, 1536, 8192),
)
"""Squares, flat, tall and odd products; the last wave of 3456×4096×4096, 4224³ and the last three
is far from full."""

TURNS: Final = 21
FEW_TURNS: Final = 3
"""Turns of a kernel, and of a textbook kernel, which nobody uses for its speed."""

LADDER_SHAPE: Final[Shape] = (4096, 4096, 4096)
"""The largest product of textbook kernels: there all rungs are compared."""

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


def is_textbook(spec: KernelSpec) -> bool:
    """Whether it is one of the lower rungs, with a thread for each element."""
    return not spec.is_cublas and spec.tiling is None


def pick_kernels(specs: Iterable[KernelSpec], shape: Shape) -> dict[KernelSpec, int]:
    """The kernels that take part at a product, and the turns of each.

    Of a textbook kernel only the first tile takes part, at squares up to LADDER_SHAPE: larger ones
    take long, and other shapes have the same rate.
    """
    is_small = shape[0] == shape[1] == shape[2] <= LADDER_SHAPE[0]
    return {
        spec: FEW_TURNS if is_textbook(spec) else TURNS
        for spec in specs
        if not is_textbook(spec) or (is_small and spec == find_kernel(spec.name, spec.dtype))
    }


def estimate_seconds(shape: Shape) -> float:
    """About how long all kernels of an element type take at a product, on an H200."""
    textbook = 2.0 if shape == LADDER_SHAPE else 0.0
    return 1.4 + textbook + 2.7e-12 * count_flops(shape)


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
