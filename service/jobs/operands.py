"""The operands of a product: found by their ids, whether they fit, and what stacks of them ask for.

An operand may be the result of a job that has not ended: its shape and type are known from that
job's request. For stacks the rules are those of `numpy.matmul`: a single matrix, and a stack of
one, is used for every product.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from wavetrim.native.element_types import find_dtype, find_limits, is_integer
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.errors import OperandNotFound, ShapesDiffer
from wavetrim.service.jobs.job import PROMISE, Job
from wavetrim.service.storage.errors import MatrixDamaged
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.npy import MAX_SIZE, make_shape

MOST_WHOLE: Final = 2**53
"""Factors of integers are below this in size: they come as float64, which rounds larger ones."""


class Shaped(Protocol):
    """Anything with the shape and element type of a matrix, or of a stack of matrices."""

    @property
    def rows(self) -> int:
        """Rows of each matrix."""

    @property
    def columns(self) -> int:
        """Columns of each matrix."""

    @property
    def stack(self) -> int | None:
        """How many matrices a stack has; None for a single matrix."""

    @property
    def dtype(self) -> str:
        """NumPy's name of the element type."""


def find_operand(
    field: str, named: str, matrices: Mapping[str, Matrix], jobs: Mapping[str, Job]
) -> Matrix | Operand:
    """What a job names as "a", "b" or "c": a matrix, or what another job will make, unaddressed.

    Raises:
        OperandNotFound: The matrix does not exist.
        MatrixDamaged: Its file has changed.
    """
    if named.startswith(PROMISE):
        shape = jobs[named.removeprefix(PROMISE)].shape
        assert shape is not None, "only a job of an earlier version that has ended has no shape"
        rows, columns, dtype, stack = shape
        return Operand(0, 0, rows, columns, dtype, stack=stack)
    matrix = matrices.get(named)
    if matrix is None:
        raise OperandNotFound(field, named)
    if matrix.damaged_at is not None:
        raise MatrixDamaged(matrix.id, "its file has changed")
    return matrix


def check_operands(
    a: Shaped,
    b: Shaped,
    c: Shaped | None,
    *,
    alpha: float,
    beta: float,
    dtype: str | None = None,
) -> tuple[GemmProblem, int | None]:
    """Makes sure that operands and factors fit together.

    Args:
        a: Must be M x K, or a stack of such matrices.
        b: Must be K x N, likewise.
        c: Must be M x N, likewise; None if there is none.
        alpha: Factor of the product.
        beta: Factor of C.
        dtype: Element type of the result, to which operands are converted; None for A's, which B
            and C must have, too.

    Returns:
        The sizes and the element type of one product, and how many a stack has; None if no
        operand is a stack.

    Raises:
        ShapesDiffer: Sizes do not fit; both shapes are in the message.
        FieldProblem: The element types are not the same, or cannot be converted; beta is not 0 and
            there is no C; alpha or beta is not whole or too large for integers, or infinite in the
            element type.
    """
    if a.columns != b.rows:
        wanted = f"({a.columns}, N)" if b.stack is None else f"({b.stack}, {a.columns}, N)"
        raise ShapesDiffer("shape of b", show_shape(b), f"{wanted}, because a is {show_shape(a)}")
    if c is not None and (c.rows, c.columns) != (a.rows, b.columns):
        wanted = f"{make_shape(a.rows, b.columns, c.stack)}"
        limit = f"{wanted}, because a is {show_shape(a)} and b is {show_shape(b)}"
        raise ShapesDiffer("shape of c", show_shape(c), limit)
    for field, operand in (("a", a), ("b", b), ("c", c)):
        if operand is not None:
            _check_dtype(field, operand.dtype, a.dtype, dtype)
    if c is None and beta != 0:
        raise FieldProblem("c", None, f"a matrix, because beta is {beta}, not 0")
    for field, factor in (("alpha", alpha), ("beta", beta)):
        _check_factor(field, factor, dtype or a.dtype)
    problem = GemmProblem(a.rows, b.columns, a.columns, dtype or a.dtype, may_be_empty=True)
    return problem, find_stack(a, b, c)


def _check_dtype(field: str, found: str, first: str, wanted: str | None) -> None:
    if wanted is None:
        if found != first:
            raise FieldProblem(f"dtype of {field}", found, f"{first}, as a's")
    elif not np.can_cast(_name_kind(found), _name_kind(wanted), "same_kind"):
        limit = f"one that becomes {wanted} (dtype) without losing its kind, as NumPy has it"
        raise FieldProblem(f"dtype of {field}", found, limit)


def _name_kind(dtype: str) -> str:
    """A type whose conversions NumPy knows; bfloat16, which it does not, counts as float16."""
    return "float16" if dtype == "bfloat16" else dtype


def _check_factor(field: str, value: float, dtype: str) -> None:
    largest = _find_largest(dtype)
    if largest is None:
        if value != int(value):
            raise FieldProblem(field, value, f"a whole number, because the matrices are {dtype}")
        if abs(value) >= MOST_WHOLE:
            raise FieldProblem(field, value, f"below {MOST_WHOLE} in size for {dtype}")
    elif abs(value) > largest:
        raise FieldProblem(field, value, f"at most {largest} in size for {dtype}")


@lru_cache
def _find_largest(dtype: str) -> float | None:
    """The largest number of an element type; None for integers, where factors wrap around."""
    named = find_dtype(dtype)
    return None if is_integer(named) else float(find_limits(named).max)


def show_shape(matrix: Shaped) -> tuple[int, ...]:
    """The sizes, as an array's."""
    return make_shape(matrix.rows, matrix.columns, matrix.stack)


def find_stack(a: Shaped, b: Shaped, c: Shaped | None = None) -> int | None:
    """How many products A, B and C ask for; None if none of them is a stack.

    Raises:
        ShapesDiffer: Two stacks, none of them of a single matrix, differ in length, or the result
            has more rows than can be counted.
    """
    if a.stack is b.stack is None and (c is None or c.stack is None):
        return None
    named = ("a", a), ("b", b), ("c", c)
    stacks = {name: one for name, one in named if one is not None and one.stack is not None}
    first, longest = next(
        (pair for pair in stacks.items() if pair[1].stack != 1), next(iter(stacks.items()))
    )
    count = longest.stack
    assert count is not None
    for name, one in stacks.items():
        if one.stack not in (1, count):
            limit = f"a stack of {count}, as {first} is {show_shape(longest)}, or of one matrix"
            raise ShapesDiffer(f"shape of {name}", show_shape(one), limit)
    if count * a.rows > MAX_SIZE:
        limit = f"at most {MAX_SIZE}, those of all products together"
        raise ShapesDiffer("rows of the result", count * a.rows, limit)
    return count


def make_product(
    asked: Mapping[str, Any], operands: Sequence[Matrix | Operand], out: Operand | None = None
) -> RunRequest:
    """The product of a job's request; a stack may be one product.

    Args:
        asked: The request, as its row has it.
        operands: Where A, B and, if there is one, C lie; matrices that are not in memory yet, or
            only their shapes.
        out: Where the result lies; None if that is not known yet.
    """
    # Matrices have no address yet.
    first, second, *rest = (
        one if isinstance(one, Operand) else one.address(0, 0) for one in operands
    )
    third = rest[0] if rest else None
    stack = find_stack(first, second, third)
    out = out or Operand(0, 0, first.rows, second.columns, first.dtype, stack=stack)
    product = RunRequest(
        "", first, second, third, out, alpha=asked["alpha"], beta=asked["beta"],
        verify=asked["verify"], options=PlanOptions.read(asked),
    )  # fmt: skip
    return fold(product)


def fold(request: RunRequest) -> RunRequest:
    """A stack that is one product, as that product; any other request as it is.

    Products that share B are one product of all their rows, if these follow each other in memory
    and F is not given: a given F is that of each product. No products are one without terms.
    """
    count, out = request.out.stack, request.out
    if count is None:
        return request
    a, b = _drop_single(request.a), _drop_single(request.b)
    c = None if request.c is None or request.beta == 0 else _drop_single(request.c)
    if count == 0:
        nothing = out._replace(rows=0, stack=None)
        a, b = a._replace(rows=0, columns=0, stack=None), b._replace(rows=0, stack=None)
        return replace(request, a=a, b=b, c=c and nothing, out=nothing)
    is_free = count == 1 or request.options.f == "auto"
    joined = [one for one in (a, c) if one is not None]
    if is_free and b.stack is None and all(_follow(one, count) for one in joined):
        return replace(request, a=_join(a), b=b, c=c and _join(c), out=_join(out))
    return replace(request, a=a, b=b, c=c)


def _drop_single(operand: Operand) -> Operand:
    return operand._replace(stack=None) if operand.stack == 1 else operand


def _follow(operand: Operand, count: int) -> bool:
    """Whether the rows of all matrices of an operand follow each other in memory."""
    return count == (operand.stack or 1) and (count == 1 or not operand.fortran_order)


def _join(operand: Operand) -> Operand:
    """A stack as one matrix of all its rows."""
    return operand._replace(rows=(operand.stack or 1) * operand.rows, stack=None)
