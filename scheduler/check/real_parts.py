"""Complex products read as products of real numbers.

Rows of A and C are read as real numbers, of which they have twice as many. B becomes a matrix of
2K x 2N: below each of its rows lies the same row times i, and both are read as real numbers. Then
each part of an element of C is a sum of 2K real products, to which all bounds of real sums apply.
Only those parts of that matrix are made that are read.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.block_sums import BlockSums

Matrix = NDArray[Any]


def view_real(matrix: Matrix) -> Matrix:
    """A matrix as real numbers, both parts of an element side by side; copied only if it must be.

    A real matrix is left as it is.
    """
    if matrix.dtype.kind != "c":
        return matrix
    if matrix.strides[1] != matrix.itemsize:
        matrix = np.ascontiguousarray(matrix)
    real: Matrix = matrix.view(matrix.real.dtype)
    return real


def count_real_columns(b: Matrix) -> int:
    """Columns of the real matrix that stands for B."""
    columns: int = b.shape[1]
    return 2 * columns if b.dtype.kind == "c" else columns


def sum_right(
    b: Matrix, weights: Matrix, width: int, sums: BlockSums, *, magnitudes: bool = False
) -> Matrix:
    """`BlockSums.sum` of the real matrix that stands for B. For a complex B the width is even."""
    if b.dtype.kind != "c":
        return sums.sum(b, weights, width, magnitudes=magnitudes)
    real = view_real(b)
    turned = np.empty_like(weights)  # i (x + yi) = -y + xi
    turned[0::2] = weights[1::2]
    turned[1::2] = weights[0::2] if magnitudes else -weights[0::2]
    both = np.empty((2 * b.shape[0], -(-weights.size // width)), weights.dtype)
    both[0::2] = sums.sum(real, weights, width, magnitudes=magnitudes)
    both[1::2] = sums.sum(real, turned, width, magnitudes=magnitudes)
    return both


def find_right_maxima(b: Matrix, sums: BlockSums) -> Matrix:
    """Largest magnitudes of the columns of the real matrix that stands for B."""
    maxima = sums.find_maxima(view_real(b))
    if b.dtype.kind != "c":
        return maxima
    return np.repeat(maxima.reshape(-1, 2).max(axis=1), 2)


def take_column(b: Matrix, column: int) -> Matrix:
    """One column of the real matrix that stands for B."""
    if b.dtype.kind != "c":
        return b[:, column]
    first = column // 2 * 2
    return take_columns(b, slice(first, first + 2))[:, column - first]


def take_columns(b: Matrix, columns: slice) -> Matrix:
    """Columns of the real matrix that stands for B. Those of a complex B begin and end evenly."""
    if b.dtype.kind != "c":
        return b[:, columns]
    taken = b[:, (columns.start or 0) // 2 : columns.stop // 2]
    both = np.empty((b.shape[0], 2, taken.shape[1]), b.dtype)
    both[:, 0] = taken
    both[:, 1].real, both[:, 1].imag = -taken.imag, taken.real
    real: Matrix = both.view(b.real.dtype).reshape(2 * b.shape[0], -1)
    return real
