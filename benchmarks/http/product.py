"""One product of the benchmark: its operands, and whether an answer is their product."""

import io
from dataclasses import dataclass
from typing import Self

import numpy as np

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, draw_operands


class WrongAnswer(Exception):
    """An answer is not the product that was asked for; the message says what it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A and B, and a check of A·B.

    Attributes:
        a: A[n, n], elements uniform in -1…1.
        b: B[n, n], likewise.
        freivalds: Checks products.
    """

    a: Matrix
    b: Matrix
    freivalds: FreivaldsCheck

    @classmethod
    def draw(cls, size: int, dtype: str, seed: int) -> Self:
        """Random operands; another seed makes another product."""
        operands = draw_operands((size, size, size), dtype, seed=2 * seed)
        return cls(operands.a, operands.b, FreivaldsCheck(operands))

    def encode(self) -> bytes:
        """Two .npy files, one after the other."""
        body = io.BytesIO()
        np.save(body, self.a)
        np.save(body, self.b)
        return body.getvalue()

    @property
    def answer_bytes(self) -> int:
        """Bytes of A·B, without a header."""
        return self.a.nbytes

    def check(self, data: memoryview) -> None:
        """Check the elements of an answer against A(B·x).

        Raises:
            WrongAnswer: They are not the product's.
        """
        name = f"{self.a.shape[0]}² {self.a.dtype}"
        if len(data) != self.answer_bytes:
            raise WrongAnswer(f"{name}: {len(data)} bytes, expected {self.answer_bytes}")
        error = self.freivalds.find_error(np.frombuffer(data, self.a.dtype).reshape(self.a.shape))
        if not error <= 1:
            raise WrongAnswer(f"{name}: off by {error:.3g} times what rounding allows")
