"""Stacks of matrices: how many products they ask for, and which of them are one product.

The rules are those of `numpy.matmul`: a single matrix, and a stack of one, is used for every
product.
"""

from dataclasses import replace
from typing import Protocol

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.service.jobs.errors import ShapesDiffer
from wavetrim.service.storage.matrices.matrix import make_shape
from wavetrim.service.storage.matrices.npy import MAX_SIZE


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


def show_shape(matrix: Shaped) -> tuple[int, ...]:
    """The sizes, as an array's."""
    return make_shape(matrix.rows, matrix.columns, matrix.stack)


def find_stack(a: Shaped, b: Shaped, c: Shaped | None) -> int | None:
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
        nothing = replace(out, rows=0, stack=None)
        a, b = replace(a, rows=0, columns=0, stack=None), replace(b, rows=0, stack=None)
        return replace(request, a=a, b=b, c=c and nothing, out=nothing)
    is_free = count == 1 or request.options.f == "auto"
    joined = [one for one in (a, c) if one is not None]
    if is_free and b.stack is None and all(_follow(one, count) for one in joined):
        return replace(request, a=_join(a), b=b, c=c and _join(c), out=_join(out))
    return replace(request, a=a, b=b, c=c)


def _drop_single(operand: Operand) -> Operand:
    return replace(operand, stack=None) if operand.stack == 1 else operand


def _follow(operand: Operand, count: int) -> bool:
    """Whether the rows of all matrices of an operand follow each other in memory."""
    return count == (operand.stack or 1) and (count == 1 or not operand.fortran_order)


def _join(operand: Operand) -> Operand:
    """A stack as one matrix of all its rows."""
    return replace(operand, rows=(operand.stack or 1) * operand.rows, stack=None)
