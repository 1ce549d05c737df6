"""Times of products of whole tiles, for calibration: some tiles for each multiprocessor."""

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from wavetrim.kernels.errors import translate_failures
from wavetrim.kernels.gemm.operands import DeviceArray
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.seconds import DeviceProduct


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """One measured product.

    Attributes:
        rows: Rows of C.
        n: Columns of C.
        k: Columns of A.
        tiles: Thread blocks of the launch.
        seconds: Median of the repeats, or mean of back-to-back launches.
    """

    rows: int
    n: int
    k: int
    tiles: int
    seconds: float


_DRAWN: Final = 65_521
"""Random elements, which then repeat. Chosen: drawing all and copying them to the GPU would take
longer than the launches."""


class KernelProbe:
    """Times one kernel on random operands of whole tiles.

    Args:
        spec: The kernel.
        sm_count: Multiprocessors of the GPU; a launch has a multiple of this number of tiles.
        device_index: The GPU.
        cache_dir: Folder of compiled kernels.
    """

    def __init__(
        self, spec: KernelSpec, *, sm_count: int, device_index: int, cache_dir: Path
    ) -> None:
        self._spec = spec
        self._device_index = device_index
        self._cache_dir = cache_dir
        self._tile_columns = _find_divisor(sm_count)
        self._tile_rows = sm_count // self._tile_columns
        self._a, self._b = (_DrawnMemory(spec.dtype, device_index) for _ in range(2))

    def measure_launch(self, repeats: int = 5) -> float:
        """Seconds of the smallest product, one tile with one step along K: median of the repeats.

        Raises:
            KernelsError: The kernel does not compile, or fails.
        """
        tile = self._spec.tile
        product = self._draw(tile.m, tile.n, tile.k)
        return statistics.median(product.time_launches(self._spec, repeats))

    def measure(self, rounds: int, k: int, repeats: int = 5) -> KernelTiming:
        """Time a product of `rounds` x `sm_count` tiles: median of the repeats.

        Raises:
            KernelsError: The kernel does not compile, or fails.
        """
        product, timing = self._prepare(rounds, k)
        seconds = statistics.median(product.time_launches(self._spec, repeats))
        return replace(timing, seconds=seconds)

    def measure_sustained(self, rounds: int, k: int, seconds: float) -> KernelTiming:
        """Time such products back to back for about `seconds`: mean of the second half.

        A GPU lowers its clock under high power, but only after some milliseconds.

        Raises:
            KernelsError: The kernel does not compile, or fails.
        """
        product, timing = self._prepare(rounds, k)
        (once,) = product.time_launches(self._spec, 1)
        launches = max(1, round(seconds / 2 / once))
        product.time_burst(self._spec, launches)
        return replace(timing, seconds=product.time_burst(self._spec, launches).seconds)

    def _prepare(self, rounds: int, k: int) -> tuple[DeviceProduct, KernelTiming]:
        spec = self._spec
        rows = rounds * self._tile_rows * spec.tile.m
        n = self._tile_columns * spec.tile.n
        tiles = rounds * self._tile_rows * self._tile_columns
        return self._draw(rows, n, k), KernelTiming(rows, n, k, tiles, seconds=0.0)

    def _draw(self, m: int, n: int, k: int) -> DeviceProduct:
        a, b = self._a.take(m, k), self._b.take(k, n)
        return DeviceProduct(a, b, device_index=self._device_index, cache_dir=self._cache_dir)


class _DrawnMemory:
    """Random elements on a GPU, shared by all matrices."""

    def __init__(self, dtype: str, device_index: int) -> None:
        self._dtype, self._device_index = dtype, device_index
        self._elements: Any = None

    def take(self, rows: int, columns: int) -> DeviceArray:
        """A row-major matrix[rows, columns] of the first elements."""
        count = rows * columns
        if self._elements is None or self._elements.size < count:
            self._elements = None  # two of them may not fit
            self._elements = self._fill(count)
        matrix: DeviceArray = self._elements[:count].reshape(rows, columns)
        return matrix

    def _fill(self, count: int) -> Any:
        """Memory of `count` elements: some are drawn, then repeated until it is full."""
        import cupy

        drawn = np.random.default_rng(0).random(_DRAWN, np.float32).astype(self._dtype)
        with cupy.cuda.Device(self._device_index), translate_failures():
            elements = cupy.empty(count, drawn.dtype)
            filled = min(count, _DRAWN)
            elements[:filled].set(drawn[:filled])
            while filled < count:
                more = min(filled, count - filled)
                size_bytes = more * drawn.itemsize
                (elements.data + filled * drawn.itemsize).copy_from_device(
                    elements.data, size_bytes
                )
                filled += more
        return elements


def _find_divisor(sm_count: int) -> int:
    """The largest divisor of `sm_count` up to its square root."""
    return next(size for size in range(int(sm_count**0.5), 0, -1) if sm_count % size == 0)
