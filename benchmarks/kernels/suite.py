"""Which products are measured, which kernels take part, and for how long."""

from collections.abc import Iterable
from typing import Final

from benchmarks.common.shapes import DTYPES, Shape, count_flops, make_cube
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.spec import KernelSpec

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
