"""One product of the benchmark: its operands, and whether an answer is their product."""

import io
from dataclasses import dataclass, field
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


def view_bytes(matrix: Matrix) -> memoryview:
    """A matrix's own memory; it is row-major without gaps."""
    return memoryview(matrix.data).cast("B")


@dataclass(slots=True, eq=False)
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
    _right_ends: tuple[bytes, bytes] = field(default=(b"", b""), init=False)

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
    def npy_header(self) -> bytes:
        """The header of A's .npy file, and of B's, as `numpy.save` writes it."""
        header = io.BytesIO()
        described = np.lib.format.header_data_from_array_1_0(self.a)
        np.lib.format.write_array_header_1_0(header, described)
        return header.getvalue()

    @property
    def answer_bytes(self) -> int:
        """Bytes of A·B, without a header."""
        return self.a.nbytes

    def check_rows(self, data: memoryview) -> None:
        """Check the first and the last row of an answer; rows equal to the last right ones pass.

        Raises:
            WrongAnswer: A row is not the product's.
        """
        row_bytes = self.answer_bytes // self.size
        ends = bytes(data[:row_bytes]), bytes(data[-row_bytes:])
        if len(data) == self.answer_bytes and ends == self._right_ends:
            return
        found = self._read(data)[[0, -1]].astype(np.float64)
        error = float(np.max(np.abs(found - self.rows)))
        limit = _SAFETY * float(np.finfo(self.a.dtype).eps) * self.size * _MEAN_PRODUCT
        if not error <= limit:
            raise WrongAnswer(
                f"first and last row of {self._name()}: off by {error:.3g}, allowed {limit:.3g}"
            )
        self._right_ends = ends

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
