"""The limit of GPUs alone: their arithmetic and their links at the rates of the same run."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.common.operands import Operands
from benchmarks.common.shapes import Shape
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.timing.joint_rates import measure_joint_rates
from wavetrim.kernels.timing.seconds import ResidentProduct

_LINK_BYTES: Final = 2**29
_LINK_TURNS: Final = 9
_LAUNCHES: Final = 5


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Rates of the links from and to page-locked memory, 1e9 bytes a second, one way at a time.

    Attributes:
        in_gbytes_per_second: Rate to all GPUs together.
        out_gbytes_per_second: Rate from all GPUs together.
    """

    in_gbytes_per_second: float
    out_gbytes_per_second: float


def find_limit_seconds(
    shape: Shape, dtype: str, *, compute_seconds: float, link: LinkRates
) -> float:
    """The least time of the GPUs alone: the longest of cuBLAS, copying in and copying out.

    Each operand crosses the links once. `compute_seconds` are those of the GPUs together.
    """
    m, n, k = shape
    size = np.dtype(dtype).itemsize
    in_seconds = (m * k + k * n) * size / (link.in_gbytes_per_second * 1e9)
    out_seconds = m * n * size / (link.out_gbytes_per_second * 1e9)
    return max(compute_seconds, in_seconds, out_seconds)


def measure_links(devices: Sequence[int]) -> LinkRates:
    """Rates of large copies between page-locked memory and these GPUs, all at once."""
    rates = measure_joint_rates(devices, _LINK_BYTES, _LINK_TURNS)
    return LinkRates(rates.in_bytes_per_second / 1e9, rates.out_bytes_per_second / 1e9)


def measure_compute(operands: Operands, *, device_index: int, cache_dir: Path) -> float:
    """Median seconds of cuBLAS at a product, its operands on the GPU."""
    import cupy

    product = ResidentProduct(
        operands.a, operands.b, device_index=device_index, cache_dir=cache_dir
    )
    seconds = product.time_launches(find_kernel("cublas", operands.dtype), _LAUNCHES)
    del product
    cupy.get_default_memory_pool().free_all_blocks()
    return statistics.median(seconds)
