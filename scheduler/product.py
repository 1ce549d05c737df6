"""A product's matrices and factors."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wavetrim.kernels.transfer.pinned import is_pinned
from wavetrim.native.element_types import find_accumulator, round_factor
from wavetrim.native.plain import Matrix


@dataclass(frozen=True, slots=True)
class EngineProduct:
    """The matrices and factors of a product, or of the products of a stack.

    A stack's `out` has three axes, the first of them for the products. They share an operand that
    has two.

    Attributes:
        a: M x K, of the result's element type once it is converted.
        b: K x N, likewise.
        c: M x N, likewise, sharing no memory with `out`; None if beta is 0.
        out: M x N; holds C before the product if beta is not 0.
        alpha: Factor of A·B; a whole number for integers, whose products are exact.
        beta: Factor of C, likewise.
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    out: Matrix
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def products(self) -> int:
        """How many products of matrices it is."""
        return 1 if self.out.ndim == 2 else len(self.out)

    def convert(self) -> "EngineProduct":
        """The product with operands and factors in the element type of `out`."""
        dtype, c = self.out.dtype, self.c
        return EngineProduct(
            self.a.astype(dtype, copy=False),
            self.b.astype(dtype, copy=False),
            None if c is None else c.astype(dtype, copy=False),
            self.out,
            round_factor(self.alpha, dtype),
            round_factor(self.beta, dtype),
        )

    def take(self, at: int | slice) -> "EngineProduct":
        """One product of a stack, or the stack of some."""
        a, b, out = _take(self.a, at), _take(self.b, at), self.out[at]
        return replace(self, a=a, b=b, c=None if self.c is None else _take(self.c, at), out=out)

    @property
    def sum_type(self) -> np.dtype[Any]:
        """The element type in which it is summed."""
        return find_accumulator(self.out.dtype)

    def is_pinned(self, *, b_resident: bool = False) -> bool:
        """Whether all matrices that a GPU copies are page-locked."""
        copied = (self.a, self.out) if b_resident else (self.a, self.b, self.out)
        return all(is_pinned(matrix) for matrix in copied)


def _take(matrix: Matrix, at: int | slice) -> Matrix:
    """The matrices of an operand for these products of a stack; the one that all share."""
    return matrix if matrix.ndim == 2 else matrix[at]
