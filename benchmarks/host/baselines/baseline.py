"""The interface of all ways to multiply matrices in host memory."""

from abc import ABC, abstractmethod

from benchmarks.common.operands import Matrix, Operands


class Baseline(ABC):
    """One way to multiply matrices in host memory.

    Attributes:
        name: Its name in rows.
    """

    name: str

    @abstractmethod
    def multiply(self, operands: Operands) -> Matrix:
        """A·B in host memory, complete, in `operands.c`."""
