"""Small measurements on one GPU, by CUDA events, for the planner's profile."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kernels.catalog import KernelSpec
from kernels.gemm import multiply_on_device

_FILLER_BYTES: Final = 512 * 2**20


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """One measured launch.

    Attributes:
        rows: Rows of C.
        n: Columns of C.
        k: Columns of A.
        tiles: Thread blocks of the launch.
        seconds: Median over the repeats.
    """

    rows: int
    n: int
    k: int
    tiles: int
    seconds: float


class KernelProbe:
    """Times one kernel on resident random operands, sized in whole tiles.

    Args:
        spec: The kernel.
        sm_count: Multiprocessors of the GPU; launches come in multiples of that many tiles.
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

    def measure(self, rounds: int, k: int, repeats: int = 5) -> KernelTiming:
        """Median seconds of a product of `rounds` x `sm_count` tiles."""
        import cupy

        spec = self._spec
        rows = rounds * self._tile_rows * spec.tile.m
        n = self._tile_columns * spec.tile.n
        with cupy.cuda.Device(self._device_index):
            rng = np.random.default_rng(0)
            a = cupy.asarray(rng.random((rows, k), np.float32).astype(spec.dtype))
            b = cupy.asarray(rng.random((k, n), np.float32).astype(spec.dtype))
            c = cupy.empty((rows, n), spec.dtype)
            filler = cupy.empty(_FILLER_BYTES, np.uint8)
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            seconds = []
            for _ in range(repeats + 1):
                # Keeps the GPU busy while the launch is prepared, which is thus not counted: in
                # a pipeline, too, launches are queued ahead of the GPU.
                filler.data.memset_async(0, filler.nbytes)
                start.record()
                multiply_on_device(spec, a, b, c, cache_dir=self._cache_dir)
                end.record()
                end.synchronize()
                seconds.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
        tiles = rounds * self._tile_rows * self._tile_columns
        return KernelTiming(rows, n, k, tiles, statistics.median(seconds[1:]))


def _find_divisor(sm_count: int) -> int:
    """The largest divisor of `sm_count` not above its square root."""
    return next(size for size in range(int(sm_count**0.5), 0, -1) if sm_count % size == 0)
