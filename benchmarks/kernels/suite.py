"""Which products are measured, which kernels take part, and for how long."""

from collections.abc import Iterable
from dataclasses import dataclass
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

MOST_TEXTBOOK_SECONDS: Final = 0.02
"""Longest launch of a textbook kernel, by its rate at the last product. Longer ones are left out:
they would show the same rate again."""

LADDER_SHAPE: Final[Shape] = (4096, 4096, 4096)
MOST_LADDER_SECONDS: Final = 0.5
"""Longest launch of the first tile of each at LADDER_SHAPE, where all rungs are compared."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A kernel that takes part.

    Attributes:
        spec: The kernel.
        turns: Turns that it takes, if there is time.
    """

    spec: KernelSpec
    turns: int = TURNS


def is_textbook(spec: KernelSpec) -> bool:
    """Whether it is one of the lower rungs, with a thread for each element."""
    return spec.source is not None and spec.tiling is None


class Paces:
    """Seconds of an operation of each kernel, at the last product that it was measured at."""

    def __init__(self) -> None:
        self._paces: dict[KernelSpec, float] = {}

    def note(self, spec: KernelSpec, shape: Shape, seconds: float) -> None:
        """Record the seconds of a launch."""
        self._paces[spec] = seconds / count_flops(shape)

    def pick(self, specs: Iterable[KernelSpec], shape: Shape) -> tuple[Contestant, ...]:
        """The contestants at a product: textbook kernels only where a launch is short enough."""
        return tuple(
            Contestant(spec, FEW_TURNS if is_textbook(spec) else TURNS)
            for spec in specs
            if not is_textbook(spec) or self._is_short(spec, shape)
        )

    def _is_short(self, spec: KernelSpec, shape: Shape) -> bool:
        compared = shape == LADDER_SHAPE and spec == find_kernel(spec.name, spec.dtype)
        most = MOST_LADDER_SECONDS if compared else MOST_TEXTBOOK_SECONDS
        return self._paces.get(spec, 0.0) * count_flops(shape) <= most


def estimate_seconds(shape: Shape) -> float:
    """About how long all kernels of an element type take at a product, on an H200."""
    textbook = 2.0 if shape == LADDER_SHAPE else 0.0
    return 1.4 + textbook + 2.7e-12 * count_flops(shape)
