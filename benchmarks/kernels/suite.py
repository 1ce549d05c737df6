"""Which products the kernels are measured at, who takes part, and how long each may take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.kernels.measured import Shape
from wavetrim.kernels.catalog import KernelSpec, find_kernel

SQUARES: Final = (4096, 8192, 16384)
"""M = N = K at which ratios to cuBLAS are promised."""

SUITE: Final[tuple[Shape, ...]] = (
    *((size, size, size) for size in (1024, 2048, *SQUARES)),
    (3456, 4096, 4096),
    (4224, 4224, 4224),
    (8192, 512, 4096),
    (512, 8192, 8192),
    (8192, 8192, 256),
    (65536, 256, 256),
    (333, 4099, 1021),
    (4096, 11008, 4096),
)
TAIL_HEAVY: Final[tuple[Shape, ...]] = (
    (3456, 4096, 4096),
    (4224, 4224, 4224),
    (4224, 4096, 1024),
    (2176, 8192, 4096),
    (1408, 1536, 8192),
)
"""Whose last wave is far from full."""

ALL_SHAPES: Final = tuple(dict.fromkeys((*SUITE, *TAIL_HEAVY)))

TURNS: Final = 21
FEW_TURNS: Final = 3
"""Of textbook kernels, which nobody chooses for their speed."""

HELD_TURNS: Final = 4
"""Of kernels held to some multiprocessors: with few of these a launch takes long."""

MOST_TEXTBOOK_SECONDS: Final = 0.02
"""Textbook kernels are left out of products at which one launch should take longer, going by their
rate at the product before: more of them would only show the same rate again."""

LADDER_SHAPE: Final[Shape] = (4096, 4096, 4096)
MOST_LADDER_SECONDS: Final = 0.5
"""At LADDER_SHAPE the first tile of each may take so long: there, all rungs are compared."""

FULL_SHAPE: Final[Shape] = (8192, 8192, 8192)
SMALL_SHAPE: Final[Shape] = (2048, 2048, 2048)
"""For fewer than LEAST_SMS multiprocessors, for which FULL_SHAPE takes seconds."""

LEAST_SMS: Final = 8
LEAST_SHARE: Final = 0.85


@dataclass(frozen=True, slots=True)
class Contestant:
    """A kernel that takes part.

    Attributes:
        spec: The kernel.
        turns: Turns that it takes, if there is time.
        sms: Multiprocessors that it is held to; None for all.
    """

    spec: KernelSpec
    turns: int = TURNS
    sms: int | None = None

    @property
    def label(self) -> str:
        """The kernel, and what it is held to."""
        held = "" if self.sms is None else f", {self.sms} multiprocessors"
        return f"{self.spec.label}{held}"


def is_textbook(spec: KernelSpec) -> bool:
    """Whether it is one of the lower rungs, with a thread for each element."""
    return spec.source is not None and spec.tiling is None


def count_flops(shape: Shape) -> int:
    """Multiplications and additions of a product."""
    m, n, k = shape
    return 2 * m * n * k


class Paces:
    """How long kernels took for an operation at the last product that they were measured at."""

    def __init__(self) -> None:
        self._paces: dict[KernelSpec, float] = {}

    def note(self, spec: KernelSpec, shape: Shape, seconds: float) -> None:
        """Remember what a launch took."""
        self._paces[spec] = seconds / count_flops(shape)

    def pick(self, specs: Iterable[KernelSpec], shape: Shape) -> tuple[Contestant, ...]:
        """Who takes part at a product: all but the textbook kernels that it would take too long."""
        return tuple(
            Contestant(spec, FEW_TURNS if is_textbook(spec) else TURNS)
            for spec in specs
            if not is_textbook(spec) or self._is_short(spec, shape)
        )

    def _is_short(self, spec: KernelSpec, shape: Shape) -> bool:
        compared = shape == LADDER_SHAPE and spec == find_kernel(spec.name, spec.dtype)
        most = MOST_LADDER_SECONDS if compared else MOST_TEXTBOOK_SECONDS
        return self._paces.get(spec, 0.0) * count_flops(shape) <= most


def list_budgets(sm_count: int) -> tuple[int, ...]:
    """How many multiprocessors launches are held to."""
    wanted = (1, LEAST_SMS, 32, sm_count // 2, sm_count)
    return tuple(sorted({sms for sms in wanted if 1 <= sms <= sm_count}))


def hold_contestants(specs: Iterable[KernelSpec], budgets: Sequence[int]) -> tuple[Contestant, ...]:
    """Every kernel that can be held, with every budget that it can be held to."""
    return tuple(
        Contestant(spec, HELD_TURNS, sms)
        for spec in specs
        for sms in budgets
        if spec.persistent and sms >= spec.sms_quantum
    )


def estimate_seconds(shape: Shape) -> float:
    """About how long all kernels of an element type take at a product, on an H200."""
    textbook = 2.0 if shape == LADDER_SHAPE else 0.0
    return 1.4 + textbook + 2.7e-12 * count_flops(shape)


def share_seconds(left: float, estimates: Sequence[float]) -> float | None:
    """How much of the time that is left for some measurements the first of them may take.

    That is its share of it; or more, if the others still have LEAST_SHARE of what they should take.

    Args:
        left: Seconds until all must be done.
        estimates: What each measurement should take.

    Returns:
        Seconds; None if that is too little to begin.
    """
    first, *others = estimates
    share = max(left * first / sum(estimates), left - LEAST_SHARE * sum(others))
    return share if share > first / 4 else None
