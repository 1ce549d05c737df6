"""Which products in host memory are measured, in which order, and about how long it takes."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.common.shapes import DTYPES, Shape, count_bytes, count_flops, make_cube, name_shape
from wavetrim.scheduler.problem import GemmProblem, Memory

Group = Literal["suite", "random", "small"]

NAMED: Final[tuple[Shape, ...]] = (
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
)
"""Squares, and flat, tall and odd products, two of them with a last wave far from full."""

ADDED: Final[tuple[Shape, ...]] = (
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
"""Ten more: a layer of a language model, a long K, few rows, few columns, mostly copies, a tall A,
one more than a power of two, and others between powers of two, the last one of primes."""

ALL_SHAPES: Final = (*NAMED, *ADDED)
"""The suite."""

SMALL_SIZES: Final = (64, 128, 256, 512, 700, 1024)
"""M = N = K of the small products; the last one is in the suite, too."""

RANDOM_SHAPES: Final = 40
LARGEST_SIZE: Final = 40_000
MOST_BYTES: Final = 4 * 2**30
"""Largest A, B and C together of a random product."""

SQUARES_HELD: Final[tuple[Shape, ...]] = ((4096, 4096, 4096), (8192, 8192, 8192))
"""Products at which F is also swept with the GPU held to FEW_SMS, like a small GPU."""

HELD_SMS: Final = (8, 32)
"""Multiprocessors that the GPU is held to at every product of the suite. With 8 more are split, so
these come first."""

FEW_SMS: Final = 4

_SLOW_WAY_BYTES_A_SECOND: Final = {"pageable": 1.5e9, "pinned": 2e10}
_TUNED_BYTES_A_SECOND: Final = {"pageable": 9e9, "pinned": 3e10}
_GPU_FLOPS_A_SECOND: Final = 5e13
_CPU_FLOPS_A_SECOND: Final = {"float32": 1.8e12, "float64": 1.1e12}
_DRAWN_BYTES_A_SECOND: Final = 3e9
_FIXED_SECONDS: Final = {"pageable": 1.2, "pinned": 0.3}
"""Rates of baselines and fixed seconds of each contest, for estimates of its time, roughly as on an
H200 with 16 cores. NumPy's threads take 0.2 s to fall asleep after a turn."""

_ROUNDS: Final = 5
_TUNINGS: Final = {"suite": 12, "random": 0, "small": 0}
"""Rounds of all, and trials and turns of cublasXt, for the same estimates."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product that is measured from every kind of host memory.

    Attributes:
        shape: M, N, K.
        dtype: Element type.
        group: Why it is measured.
    """

    shape: Shape
    dtype: str
    group: Group = "suite"

    def __str__(self) -> str:
        """Its name in the log and in the list of what was left out: "4096³ float32"."""
        return f"{name_shape(self.shape)} {self.dtype}"

    def place_in(self, memory: Memory) -> GemmProblem:
        """The product to plan if its matrices lie in this kind of memory."""
        m, n, k = self.shape
        return GemmProblem(m=m, n=n, k=k, dtype=self.dtype, memory=memory)

    @property
    def size_bytes(self) -> int:
        """Bytes of A, B and C together."""
        return count_bytes(self.shape, self.dtype)

    def estimate_seconds(self, memory: str) -> float:
        """About the time of all baselines together, on an H200 with 16 cores."""
        flops, moved_bytes = count_flops(self.shape), self.size_bytes
        compute_seconds = flops / _GPU_FLOPS_A_SECOND
        a_round = moved_bytes / _SLOW_WAY_BYTES_A_SECOND[memory] + 6 * compute_seconds
        tuned_seconds = moved_bytes / _TUNED_BYTES_A_SECOND[memory] + compute_seconds
        on_cpu = flops / _CPU_FLOPS_A_SECOND[self.dtype] if memory == "pageable" else 0.0
        return (
            _FIXED_SECONDS[memory]
            + moved_bytes / _DRAWN_BYTES_A_SECOND
            + on_cpu
            + _ROUNDS * a_round
            + _TUNINGS[self.group] * tuned_seconds
        )


def list_suite(shapes: Sequence[Shape] = ALL_SHAPES, group: Group = "suite") -> list[Product]:
    """Products of these shapes, each in both element types."""
    return [Product(shape, dtype, group) for shape in shapes for dtype in DTYPES]


def list_small() -> list[Product]:
    """The small products that are not in the suite."""
    cubes = map(make_cube, SMALL_SIZES)
    return list_suite([shape for shape in cubes if shape not in ALL_SHAPES], "small")


def draw_products(seed: str, count: int = RANDOM_SHAPES) -> list[Product]:
    """Products that nothing was tuned for: sizes log-uniform in 1…LARGEST_SIZE, random types.

    The same seed gives the same products, with any version of Python.
    """
    generator = random.Random(seed)
    products: list[Product] = []
    while len(products) < count:
        m, n, k = (
            round(math.exp(generator.uniform(0.0, math.log(LARGEST_SIZE)))) for _ in range(3)
        )
        product = Product((m, n, k), generator.choice(DTYPES), "random")
        if product.size_bytes <= MOST_BYTES:
            products.append(product)
    return products


def list_sweeps(
    suite: Sequence[Product], drawn: Sequence[Product]
) -> list[tuple[Product, int | None]]:
    """Products at which F is swept, each with multiprocessors (None for all), by importance."""
    whole = [(product, None) for product in (*suite, *drawn)]
    held = [(product, sms) for sms in HELD_SMS for product in suite]
    few = [(product, FEW_SMS) for product in suite if product.shape in SQUARES_HELD]
    return [*whole, *few, *held]
