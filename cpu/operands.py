"""Checks of operands, and the layouts that BLAS accepts."""

from typing import Any

import numpy as np

from wavetrim.cpu.errors import OperandError
from wavetrim.cpu.products import DTYPES
from wavetrim.native.element_types import is_integer
from wavetrim.native.plain import Matrix


def check_operands(a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float) -> None:
    """Check that a product can be computed.

    Raises:
        OperandError: Shapes or element types do not fit, C is read-only or shares memory with A
            or B, or a factor of an integer product is no whole number.
    """
    for name, operand in (("a", a), ("b", b), ("c", c)):
        _check_matrix(name, operand, c.dtype)
    if a.shape[1] != b.shape[0]:
        raise OperandError("b", f"{b.shape}", f"of {a.shape[1]} rows, the columns of A {a.shape}")
    if c.shape != (a.shape[0], b.shape[1]):
        raise OperandError("c", f"{c.shape}", f"of shape {(a.shape[0], b.shape[1])}")
    if not c.flags.writeable:
        raise OperandError("c", "read-only", "writable")
    for name, operand in (("a", a), ("b", b)):
        if np.shares_memory(operand, c):
            raise OperandError("c", f"in the memory of {name}", "in memory of its own")
    for name, factor in (("alpha", alpha), ("beta", beta)):
        if is_integer(c.dtype) and factor != int(factor):
            raise OperandError(name, factor, f"a whole number for {c.dtype} matrices")


def find_blas_strides(matrix: Matrix) -> tuple[int, int] | None:
    """Row and column stride in bytes, as BLAS needs them, of a matrix that is not empty.

    Returns:
        One stride is the size of an element. The other is the leading dimension, at least the size
        of a row (or column), even if NumPy's stride of a single row or column is not. None if BLAS
        does not accept the layout.
    """
    if not matrix.flags.aligned:
        return None
    return lay_out(matrix.shape, matrix.strides, matrix.itemsize)


def lay_out(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> tuple[int, int] | None:
    """As `find_blas_strides`, for any aligned matrix of this shape and these strides."""
    (rows, columns), (down, across) = shape, strides
    if columns == 1 or across == item:
        row = columns * item if rows == 1 else down
        if row >= columns * item and row % item == 0:
            return row, item
    if rows == 1 or down == item:
        column = rows * item if columns == 1 else across
        if column >= rows * item and column % item == 0:
            return item, column
    return None


def _check_matrix(name: str, operand: Matrix, dtype: np.dtype[Any]) -> None:
    if operand.ndim != 2:
        raise OperandError(name, f"an array of {operand.ndim} dimensions", "a matrix")
    if operand.dtype not in DTYPES:
        known = ", ".join(sorted(known.name for known in DTYPES))
        raise OperandError(name, f"of type {operand.dtype.str}", f"one of {known}")
    if operand.dtype != dtype:
        raise OperandError(name, f"of type {operand.dtype}", f"of type {dtype}, as C is")
