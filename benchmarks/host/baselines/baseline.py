"""What every way to multiply matrices in host memory can do, this product's and others'."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from benchmarks.common.operands import Matrix, Operands
from wavetrim.scheduler.problem import MEMORIES


class Baseline(ABC):
    """One way to multiply matrices in host memory.

    Attributes:
        name: What rows call it.
        memories: Kinds of host memory that it takes part with.
        groups: Groups of products that it takes part at.
        turns: Turns that it takes of a short product, if there is time.
        warms_up: Whether its first product takes longer than those after it, and so does not count.
    """

    name: str
    memories: ClassVar[tuple[str, ...]] = MEMORIES
    groups: ClassVar[tuple[str, ...]] = ("suite", "random", "small")
    turns: ClassVar[int] = 25
    warms_up: ClassVar[bool] = True

    def prepare(self, operands: Operands, until: float) -> bool:
        """Get ready for this product: allocate what is kept between turns, find settings.

        Returns:
            Whether it takes part.
        """
        del operands, until
        return True

    @property
    def wakes_blas(self) -> bool:
        """Whether it wants all threads of BLAS."""
        return False

    @abstractmethod
    def multiply(self, operands: Operands) -> Matrix:
        """A·B in host memory, complete: in `operands.c`, or in memory of its own."""

    @property
    def rows_on_cpu(self) -> tuple[int | None, int | None]:
        """F as planned and as it became; None where nothing of the kind is chosen."""
        return None, None

    @property
    def settings(self) -> dict[str, Any] | None:
        """JSON-ready: what it was tuned to; None where there is nothing to tune."""
        return None

    def release(self) -> None:
        """Give back what `prepare` and `multiply` keep; some keep nothing."""
        return
