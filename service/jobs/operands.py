"""The operands of a job: found by their ids, and whether they fit together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.errors import MatrixDamaged, MatrixNotFound, ShapesDiffer
from wavetrim.service.jobs.errors import (
    DtypesDiffer,
    FactorRefused,
    OperandMissing,
    OperandNotFound,
)
from wavetrim.service.storage.matrix import Matrix

if TYPE_CHECKING:
    from wavetrim.service.storage.matrices import MatrixStore


def find_operands(
    request: Mapping[str, Any], matrices: "MatrixStore"
) -> tuple[Matrix, Matrix, Matrix | None]:
    """A, B and C of a request; no C where it names none.

    Raises:
        OperandNotFound: One of them does not exist.
        MatrixDamaged: The file of one of them has changed.
    """

    def find(field: str) -> Matrix:
        try:
            matrix = matrices.get(request[field])
        except MatrixNotFound as error:
            raise OperandNotFound(field, request[field]) from error
        if matrix.damaged_at is not None:
            raise MatrixDamaged(matrix.id, "its file has changed")
        return matrix

    return find("a"), find("b"), None if request["c"] is None else find("c")


def check_operands(
    request: Mapping[str, Any], a: Matrix, b: Matrix, c: Matrix | None
) -> GemmProblem:
    """Check what a product needs of its operands; pure.

    Args:
        request: The job's request; alpha and beta are read.
        a: Must be M x K.
        b: Must be K x N.
        c: Must be M x N where it is given.

    Returns:
        The product's sizes and element type.

    Raises:
        ShapesDiffer: Sizes do not fit; both shapes are in the message.
        DtypesDiffer: The element types are not the same.
        OperandMissing: beta is not 0 and there is no C.
        FactorRefused: Alpha or beta is not whole for integers, or infinite in the element type.
    """
    if a.columns != b.rows:
        limit = f"({a.columns}, N), because a is {_shape(a)}"
        raise ShapesDiffer("shape of b", _shape(b), limit)
    if c is not None and (c.rows, c.columns) != (a.rows, b.columns):
        limit = f"{(a.rows, b.columns)}, because a is {_shape(a)} and b is {_shape(b)}"
        raise ShapesDiffer("shape of c", _shape(c), limit)
    for field, operand in (("b", b), ("c", c)):
        if operand is not None and operand.dtype != a.dtype:
            raise DtypesDiffer(f"dtype of {field}", operand.dtype, f"{a.dtype}, as a's")
    if c is None and request["beta"] != 0:
        raise OperandMissing("c", None, f"the id of a matrix while beta is {request['beta']}")
    for field in ("alpha", "beta"):
        _check_factor(field, request[field], a.dtype)
    return GemmProblem(a.rows, b.columns, a.columns, a.dtype)


def _shape(matrix: Matrix) -> tuple[int, int]:
    return (matrix.rows, matrix.columns)


def _check_factor(field: str, value: float, dtype: str) -> None:
    if np.issubdtype(np.dtype(dtype), np.integer):
        if value != int(value):
            raise FactorRefused(field, value, f"a whole number, because the matrices are {dtype}")
    elif abs(value) > float(np.finfo(dtype).max):
        raise FactorRefused(field, value, f"at most {np.finfo(dtype).max} in size for {dtype}")
