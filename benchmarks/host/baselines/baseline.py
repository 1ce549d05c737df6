"""The interface of all ways to multiply matrices in host memory, and wavetrim's own."""

from abc import ABC, abstractmethod
from typing import Literal

import wavetrim
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


class LocalMatmul(Baseline):
    """`wavetrim.matmul(a, b, out=c)`.

    Args:
        name: Its name in rows.
        f: Rows of C that the CPU computes.
    """

    def __init__(self, name: str, *, f: int | Literal["auto"] = "auto") -> None:
        self.name = name
        self._f = f

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        wavetrim.matmul(operands.a, operands.b, out=operands.c, f=self._f)
        return operands.c

    def find_f(self, operands: Operands) -> int:
        """F of the plan as it is now."""
        m, n, k = operands.shape
        return wavetrim.plan(m, n, k, dtype=operands.dtype, memory=operands.memory, f=self._f).f
