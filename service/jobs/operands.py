"""The operands of a job: found by their ids, and whether they fit together."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from wavetrim.native.element_types import find_dtype, find_limits, is_integer
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.jobs.errors import (
    DtypesDiffer,
    FactorRefused,
    OperandMissing,
    OperandNotFound,
    ShapesDiffer,
)
from wavetrim.service.jobs.job import Job
from wavetrim.service.storage.errors import MatrixDamaged
from wavetrim.service.storage.matrices.matrix import Matrix

if TYPE_CHECKING:
    from wavetrim.service.storage.matrices.matrices import MatrixStore


MOST_WHOLE: Final = 2**53
"""Factors of integers are below this in size: they come as float64, which rounds larger ones."""

Operands = tuple[Matrix, Matrix, Matrix | None]
"""A, B and C of a product; no C if it has none."""


def find_operands(
    request: Mapping[str, Any], matrices: "MatrixStore", owner: str | None = None
) -> Operands:
    """A, B and C of a request; no C if it names none.

    Args:
        request: The request; `a`, `b` and `c` are matrix ids.
        matrices: The matrices.
        owner: Whose they must be; None for anybody's.

    Raises:
        OperandNotFound: One of them does not exist.
        MatrixDamaged: The file of one of them has changed.
    """
    wanted = {field: request[field] for field in ("a", "b", "c") if request[field] is not None}
    there = matrices.find(wanted.values(), owner)
    found: dict[str, Matrix] = {}
    for field, matrix_id in wanted.items():
        matrix = there.get(matrix_id)
        if matrix is None:
            raise OperandNotFound(field, matrix_id)
        if matrix.damaged_at is not None:
            raise MatrixDamaged(matrix.id, "its file has changed")
        found[field] = matrix
    return found["a"], found["b"], found.get("c")


def find_matrices(job: Job, matrices: "MatrixStore") -> Operands:
    """A, B and C of a job; no C if it names none.

    Raises:
        MatrixNotFound: One of them is gone.
    """
    a, b = matrices.get(job.a), matrices.get(job.b)
    return a, b, None if job.c is None else matrices.get(job.c)


class Shaped(Protocol):
    """Anything with a matrix's shape and element type."""

    @property
    def rows(self) -> int:
        """First size."""

    @property
    def columns(self) -> int:
        """Second size."""

    @property
    def dtype(self) -> str:
        """NumPy's name of the element type."""


def check_operands(
    a: Shaped,
    b: Shaped,
    c: Shaped | None,
    *,
    alpha: float,
    beta: float,
    dtype: str | None = None,
) -> GemmProblem:
    """Makes sure that operands and factors fit together.

    Args:
        a: Must be M x K.
        b: Must be K x N.
        c: Must be M x N; None if there is none.
        alpha: Factor of the product.
        beta: Factor of C.
        dtype: Element type of the result, to which operands are converted; None for A's, which B
            and C must have, too.

    Returns:
        The product's sizes and element type.

    Raises:
        ShapesDiffer: Sizes do not fit; both shapes are in the message.
        DtypesDiffer: The element types are not the same, or cannot be converted.
        OperandMissing: beta is not 0 and there is no C.
        FactorRefused: Alpha or beta is not whole or too large for integers, or infinite in the
            element type.
    """
    if a.columns != b.rows:
        limit = f"({a.columns}, N), because a is {_shape(a)}"
        raise ShapesDiffer("shape of b", _shape(b), limit)
    if c is not None and (c.rows, c.columns) != (a.rows, b.columns):
        limit = f"{(a.rows, b.columns)}, because a is {_shape(a)} and b is {_shape(b)}"
        raise ShapesDiffer("shape of c", _shape(c), limit)
    for field, operand in (("a", a), ("b", b), ("c", c)):
        if operand is not None:
            _check_dtype(field, operand.dtype, a.dtype, dtype)
    if c is None and beta != 0:
        raise OperandMissing("c", None, f"given, as beta is {beta}")
    for field, factor in (("alpha", alpha), ("beta", beta)):
        _check_factor(field, factor, dtype or a.dtype)
    return GemmProblem(a.rows, b.columns, a.columns, dtype or a.dtype, may_be_empty=True)


def _check_dtype(field: str, found: str, first: str, wanted: str | None) -> None:
    if wanted is None:
        if found != first:
            raise DtypesDiffer(f"dtype of {field}", found, f"{first}, as a's")
    elif not np.can_cast(_name_kind(found), _name_kind(wanted), "same_kind"):
        limit = f"one that becomes {wanted} (dtype) without losing its kind, as NumPy has it"
        raise DtypesDiffer(f"dtype of {field}", found, limit)


def _name_kind(dtype: str) -> str:
    """A type whose conversions NumPy knows; bfloat16, which it does not, counts as float16."""
    return "float16" if dtype == "bfloat16" else dtype


def _shape(matrix: Shaped) -> tuple[int, int]:
    return (matrix.rows, matrix.columns)


def _check_factor(field: str, value: float, dtype: str) -> None:
    largest = _find_largest(dtype)
    if largest is None:
        if value != int(value):
            raise FactorRefused(field, value, f"a whole number, because the matrices are {dtype}")
        if abs(value) >= MOST_WHOLE:
            raise FactorRefused(field, value, f"below {MOST_WHOLE} in size for {dtype}")
    elif abs(value) > largest:
        raise FactorRefused(field, value, f"at most {largest} in size for {dtype}")


@lru_cache
def _find_largest(dtype: str) -> float | None:
    """The largest number of an element type; None for integers, where factors wrap around."""
    named = find_dtype(dtype)
    return None if is_integer(named) else float(find_limits(named).max)
