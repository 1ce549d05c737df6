"""Which products in host memory are measured, and which are swept over F."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.common.shapes import DTYPES, Product, Shape, count_flops, make_cube
from benchmarks.host.conditions import Condition
from wavetrim.scheduler.problem import Memory

NAMED: Final = (
    Product(1682, 63, 4087, "float64"),
    Product(2000, 2000, 2000, "float32"),
    Product(22033, 104, 1641, "float32"),
    Product(4096, 4096, 4096, "float32"),
    Product(29937, 2388, 60, "float32"),
    Product(64, 64, 64, "float32"),
    Product(1024, 1024, 1024, "float32"),
    Product(8192, 8192, 8192, "float32"),
    Product(16384, 16384, 256, "float32"),
    Product(100_003, 64, 64, "float32"),
)
"""Five that were once up to 400 times slower on a busy machine, squares, and two that the link
bounds."""

RANDOM_PRODUCTS: Final = 16
LARGEST_SIZE: Final = 40_000
MOST_BYTES: Final = 4 * 2**30
"""Largest A, B and C together of a random product."""

_DRAWN: Final = 1000
_LEAST_SECONDS: Final = 0.05e-3
_MOST_SECONDS: Final = 60e-3
_MOST_CPU_SECONDS: Final = 0.3
"""Least and longest estimated time of the fastest device, and longest of the CPU; chosen."""

_CORE_FLOPS_A_SECOND: Final = {"float32": 6e10, "float64": 3e10}
_GPU_FLOPS_A_SECOND: Final = 4e13
_BYTES_A_SECOND: Final = 1e10
"""Rates for these estimates, roughly as on an H100; the bytes are those in pageable memory."""

SWEPT_SHAPES: Final[tuple[Shape, ...]] = (
    *map(make_cube, (1024, 2048, 4096, 8192, 16384)),
    (16384, 16384, 256),
    (65536, 256, 256),
    (256, 8192, 8192),
    (8192, 1024, 8192),
    (1, 8192, 8192),
    (8192, 8192, 1),
    (3456, 4096, 4096),
    (4224, 4224, 4224),
    (100_003, 64, 64),
    (333, 4099, 1021),
    (32768, 32768, 4096),
    (4096, 11008, 4096),
    (512, 512, 65536),
    (64, 8192, 8192),
    (8192, 64, 8192),
    (16384, 16384, 64),
    (20000, 1000, 1000),
    (2049, 2049, 2049),
    (6144, 6144, 6144),
    (12288, 3072, 768),
    (1531, 7919, 3001),
)
"""Squares, and flat, tall and odd products, some with a last wave far from full."""

SHORT_PRODUCTS: Final = (
    Product(65536, 512, 128, "float32"),
    Product(131072, 256, 64, "float32"),
    Product(250_000, 128, 128, "float32"),
    Product(12000, 12000, 100, "float32"),
    Product(16384, 16384, 256, "float32"),
    Product(29937, 2388, 60, "float32"),
    Product(33105, 567, 2, "float32"),
    Product(20000, 4000, 32, "float32"),
    Product(4096, 16384, 128, "float32"),
    Product(6000, 6000, 150, "float32"),
    Product(20845, 2933, 39, "float64"),
    Product(100_003, 64, 64, "float64"),
    Product(1061, 9087, 211, "float64"),
    Product(8000, 8000, 64, "float64"),
    Product(50000, 1000, 100, "float64"),
)
"""Products of a short K, which the link bounds: from page-locked memory most are split."""

RANDOM_SWEEPS: Final = 40
RANDOM_SHARED: Final = 15
"""Random products among the sweeps from pageable and from page-locked memory."""

HELD_SMS: Final = (8, 32)
"""Limits of multiprocessors with which all products are swept. 8 comes first: more are split."""

FEW_SMS: Final = 4
SQUARES_HELD: Final[tuple[Shape, ...]] = (make_cube(4096), make_cube(8192))
"""Products at which F is also swept with the GPU limited to FEW_SMS, like a small GPU."""


def draw_products(seed: str, count: int) -> list[Product]:
    """Products that nothing was tuned for: sizes log-uniform in 1…LARGEST_SIZE, random types.

    The same seed gives the same products, with any version of Python.
    """
    generator = random.Random(seed)
    products: list[Product] = []
    while len(products) < count:
        m, n, k = (
            round(math.exp(generator.uniform(0.0, math.log(LARGEST_SIZE)))) for _ in range(3)
        )
        product = Product(m, n, k, generator.choice(DTYPES))
        if product.size_bytes <= MOST_BYTES:
            products.append(product)
    return products


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


@dataclass(frozen=True, slots=True)
class Swept:
    """A product at which F is swept.

    Attributes:
        product: The product.
        sms: Limit of the GPU's multiprocessors; None for all.
        memory: Kind of its matrices' memory.
        condition: What else the machine does.
    """

    product: Product
    sms: int | None = None
    memory: Memory = "pageable"
    condition: Condition = "quiet"

    def __str__(self) -> str:
        where = "all" if self.sms is None else self.sms
        return f"F at {self.product.name} {self.memory} {self.condition}, {where} multiprocessors"


def list_sweeps(shapes: Sequence[Shape], drawn: Sequence[Product]) -> list[Swept]:
    """The sweeps from pageable memory, by importance."""
    suite = [Product(*shape, dtype) for shape in shapes for dtype in DTYPES]
    whole = [Swept(product) for product in (*suite, *drawn)]
    few = [Swept(product, FEW_SMS) for product in suite if product.shape in SQUARES_HELD]
    held = [Swept(product, sms) for sms in HELD_SMS for product in suite]
    return [*whole, *few, *held]


def list_pinned_sweeps(products: Sequence[Product]) -> list[Swept]:
    """The sweeps from page-locked memory, each on a quiet machine and right after NumPy."""
    conditions: tuple[Condition, ...] = ("quiet", "after-numpy")
    return [Swept(one, None, "pinned", condition) for one in products for condition in conditions]
