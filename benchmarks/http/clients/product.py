"""One product of the benchmark: its operands, and whether an answer is their product."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, draw_operands

_SAFETY: Final = 16.0
"""Allowed error of an element over the usual one; chosen."""

_MEAN_PRODUCT: Final = 1 / 3
"""Root mean square of a product of two elements that are uniform in -1…1."""


class WrongAnswer(Exception):
    """An answer is not the product that was asked for; the message says what it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A and B, and what is known of A·B.

    Attributes:
        a: A[n, n], elements uniform in -1…1.
        b: B[n, n], likewise.
        rows: First and last row of A·B, computed in float64.
        check: Checks whole products.
    """

    a: Matrix
    b: Matrix
    rows: NDArray[np.float64]
    check: FreivaldsCheck

    @classmethod
    def draw(cls, size: int, dtype: str, seed: int) -> Self:
        """Random operands; another seed makes another product."""
        operands = draw_operands((size, size, size), dtype, seed=2 * seed)
        ends = operands.a[[0, -1]].astype(np.float64)
        rows = ends @ operands.b.astype(np.float64)
        return cls(operands.a, operands.b, rows, FreivaldsCheck(operands))

    @property
    def size(self) -> int:
        """Rows and columns."""
        return int(self.a.shape[0])

    @property
    def answer_bytes(self) -> int:
        """Bytes of A·B, without a header."""
        return self.a.nbytes

    def check_rows(self, data: memoryview) -> None:
        """Check the first and the last row of an answer.

        Raises:
            WrongAnswer: A row is not the product's.
        """
        found = self._read(data)[[0, -1]].astype(np.float64)
        error = float(np.max(np.abs(found - self.rows)))
        limit = _SAFETY * float(np.finfo(self.a.dtype).eps) * self.size * _MEAN_PRODUCT
        if not error <= limit:
            raise WrongAnswer(
                f"first and last row of {self._name()}: off by {error:.3g}, allowed {limit:.3g}"
            )

    def check_whole(self, data: memoryview) -> None:
        """Check a whole answer against A(B·x).

        Raises:
            WrongAnswer: It is not the product.
        """
        error = self.check.find_error(self._read(data))
        if not error <= 1:
            raise WrongAnswer(f"{self._name()}: off by {error:.3g} times what rounding allows")

    def _read(self, data: memoryview) -> Matrix:
        if len(data) != self.answer_bytes:
            raise WrongAnswer(f"{self._name()}: {len(data)} bytes, expected {self.answer_bytes}")
        return np.frombuffer(data, self.a.dtype).reshape(self.a.shape)

    def _name(self) -> str:
        return f"{self.size}² {self.a.dtype.name}"
