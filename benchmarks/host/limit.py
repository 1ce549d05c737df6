"""How fast the GPU alone could be: its arithmetic and its link at the rates of the same run."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common.operands import Operands
from benchmarks.kernels.measured import Shape
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.timing.seconds import ResidentProduct
from wavetrim.kernels.transfer.pinned import pin_matrix

_LINK_BYTES: Final = 2**30
_LINK_TURNS: Final = 9
_LAUNCHES: Final = 5


@dataclass(frozen=True, slots=True)
class LinkRates:
    """What the link carries from and to page-locked memory, 1e9 bytes a second, one way at a time.

    Attributes:
        in_gbytes_per_second: To the GPU.
        out_gbytes_per_second: From it.
    """

    in_gbytes_per_second: float
    out_gbytes_per_second: float


def find_limit_seconds(
    shape: Shape, dtype: str, *, compute_seconds: float, link: LinkRates
) -> float:
    """The least time of the GPU alone: the longest of computing, copying in and copying out.

    Args:
        shape: M, N, K.
        dtype: Element type.
        compute_seconds: What cuBLAS takes for this product on the GPU.
        link: The link's rates.
    """
    m, n, k = shape
    size = np.dtype(dtype).itemsize
    in_seconds = (m * k + k * n) * size / (link.in_gbytes_per_second * 1e9)
    out_seconds = m * n * size / (link.out_gbytes_per_second * 1e9)
    return max(compute_seconds, in_seconds, out_seconds)


def measure_link(device_index: int) -> LinkRates:
    """Rates of one large copy each way between page-locked memory and the GPU, by CUDA events."""
    import cupy

    host = pin_matrix(1, _LINK_BYTES, np.uint8)
    with cupy.cuda.Device(device_index):
        stream = cupy.cuda.Stream(non_blocking=True)
        array = cupy.empty((1, _LINK_BYTES), np.uint8)
        cupy.cuda.get_current_stream().synchronize()
        copy_out = partial(array.get, stream=stream, out=host, blocking=False)
        in_seconds = _time(stream, partial(array.set, host, stream=stream))
        out_seconds = _time(stream, copy_out)
        del array, copy_out
        cupy.get_default_memory_pool().free_all_blocks()
    return LinkRates(_LINK_BYTES / in_seconds / 1e9, _LINK_BYTES / out_seconds / 1e9)


def measure_compute(operands: Operands, *, device_index: int, cache_dir: Path) -> float:
    """Median seconds of cuBLAS at a product, its operands on the GPU.

    Raises:
        KernelsError: The GPU has no room for the operands, or refuses them.
    """
    import cupy

    product = ResidentProduct(
        operands.a, operands.b, device_index=device_index, cache_dir=cache_dir
    )
    seconds = product.time_launches(find_kernel("cublas", operands.dtype), _LAUNCHES)
    del product
    cupy.get_default_memory_pool().free_all_blocks()
    return statistics.median(seconds)


def _time(stream: Any, copy: Callable[[], object]) -> float:
    import cupy

    seconds: list[float] = []
    for _ in range(_LINK_TURNS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(stream)
        copy()
        end.record(stream)
        end.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return statistics.median(seconds)
