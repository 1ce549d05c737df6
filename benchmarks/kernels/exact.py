"""Errors of products, against a reference that is more exact than float64."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

_BITS: Final = 19
MOST_K: Final = 2 ** (53 - 2 * _BITS - 1)
"""Bits of a slice, and most terms whose sum is then exact in float64's 53 bits."""


class ExactProduct:
    """A·B as the reference of other products.

    A and B are cut into slices of 19 bits, so that sums of products of slices are exact in float64,
    in any order; differences from it are right to 2^-57. (Ozaki, Ogita, Oishi, Rump: Error-free
    transformations of matrix multiplication, 2012.)

    Args:
        a: A[M, K], elements in -1…1, in float64 or shorter; K at most MOST_K.
        b: B[K, N], likewise.
    """

    def __init__(self, a: Matrix, b: Matrix) -> None:
        assert a.shape[1] <= MOST_K, "sums of more products are not exact"
        a, b = a.astype(np.float64), b.astype(np.float64)
        a_high, a_middle, a_low = _slice(a)
        b_high, b_middle, b_low = _slice(b)
        self._high = a_high @ b_high
        self._middle = a_high @ b_middle + a_middle @ b_high
        self._low = a_middle @ b_middle + (a_high @ b_low + a_low @ b_high)
        self._scale = np.abs(a) @ np.abs(b)

    def find_relative_errors(self, found: Matrix) -> Matrix:
        """|found - A·B| / (|A|·|B|), element by element."""
        error = ((found.astype(np.float64) - self._high) - self._middle) - self._low
        errors: Matrix = np.abs(error) / self._scale
        return errors


def _slice(matrix: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Three matrices that add up to it: multiples of 2^-19, of 2^-38, and the rest."""
    high = np.ldexp(np.rint(np.ldexp(matrix, _BITS)), -_BITS)
    rest = matrix - high
    middle = np.ldexp(np.rint(np.ldexp(rest, 2 * _BITS)), -2 * _BITS)
    return high, middle, rest - middle
