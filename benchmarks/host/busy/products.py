"""The products: five by name, and some that the script draws."""

from typing import Final

from benchmarks.common.shapes import count_flops
from benchmarks.host.suite import Product, draw_products

NAMED: Final = (
    Product((1682, 63, 4087), "float64"),
    Product((2000, 2000, 2000), "float32"),
    Product((22033, 104, 1641), "float32"),
    Product((4096, 4096, 4096), "float32"),
    Product((29937, 2388, 60), "float32"),
)
"""Products that were up to 400 times slower on a busy machine."""

RANDOM_PRODUCTS: Final = 16
_DRAWN: Final = 1000
_LEAST_SECONDS: Final = 0.05e-3
_MOST_SECONDS: Final = 60e-3
_MOST_CPU_SECONDS: Final = 0.3
"""Estimated time of the fastest device, and of the CPU; chosen."""

_CORE_FLOPS_A_SECOND: Final = {"float32": 6e10, "float64": 3e10}
_GPU_FLOPS_A_SECOND: Final = 4e13
_BYTES_A_SECOND: Final = 1e10
"""Rates for these estimates, roughly as on an H100; the bytes are those in pageable memory."""


def draw_timely(seed: str, count: int, *, cores: int, has_gpu: bool) -> list[Product]:
    """Random products that take about 0.05 to 60 ms on this machine, and the CPU not too long."""
    drawn = draw_products(seed, _DRAWN)
    return [one for one in drawn if _is_timely(one, cores=cores, has_gpu=has_gpu)][:count]


def _is_timely(product: Product, *, cores: int, has_gpu: bool) -> bool:
    flops = count_flops(product.shape)
    moved_seconds = product.size_bytes / _BYTES_A_SECOND
    cpu_seconds = flops / (cores * _CORE_FLOPS_A_SECOND[product.dtype]) + moved_seconds
    gpu_seconds = max(flops / _GPU_FLOPS_A_SECOND, moved_seconds)
    seconds = min(cpu_seconds, gpu_seconds) if has_gpu else cpu_seconds
    return _LEAST_SECONDS <= seconds <= _MOST_SECONDS and cpu_seconds <= _MOST_CPU_SECONDS
