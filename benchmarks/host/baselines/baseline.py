"""The interface of all ways to multiply matrices in host memory."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from benchmarks.common.operands import Matrix, Operands
from wavetrim.scheduler.problem import MEMORIES


class Baseline(ABC):
    """One way to multiply matrices in host memory.

    Attributes:
        name: Its name in rows.
        memories: Kinds of host memory with which it takes part.
        groups: Groups of products at which it takes part.
        turns: Turns that it takes at a short product, if there is time.
        warms_up: Whether its first product takes longer than later ones, and so does not count.
    """

    name: str
    memories: ClassVar[tuple[str, ...]] = MEMORIES
    groups: ClassVar[tuple[str, ...]] = ("suite", "random", "small")
    turns: ClassVar[int] = 25
    warms_up: ClassVar[bool] = True

    def prepare(self, operands: Operands, until: float) -> bool:
        """Prepare for a product: allocate what is kept between turns, find settings.

        Returns:
            Whether it takes part.
        """
        del operands, until
        return True

    @property
    def wakes_blas(self) -> bool:
        """Whether it uses all threads of BLAS."""
        return False

    @abstractmethod
    def multiply(self, operands: Operands) -> Matrix:
        """A·B in host memory, complete: in `operands.c`, or in memory of its own."""

    @property
    def rows_on_cpu(self) -> tuple[int | None, int | None]:
        """F as planned, and as computed; None without a plan."""
        return None, None

    @property
    def settings(self) -> dict[str, Any] | None:
        """JSON-ready: its settings; None if it has none."""
        return None

    def release(self) -> None:
        """Give back what `prepare` and `multiply` keep, if anything."""
        return
