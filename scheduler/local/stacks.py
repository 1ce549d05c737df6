"""Shapes of products by NumPy's rules: vectors, matrices, and stacks of matrices.

The last two axes are a matrix's, the others the stack's. Stacks are broadcast against each other. A
vector is a row on the left and a column on the right; the result lacks its axis.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.errors import ProblemError

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
Matrices: TypeAlias = tuple[Array, Array, Array]

_MOST_AXES: Final = 32
"""The most axes that NumPy broadcasts."""


@dataclass(frozen=True)
class StackProblem:
    """The sizes of A·B.

    Attributes:
        m: Rows of each matrix of A.
        n: Columns of each matrix of B.
        k: Columns of each matrix of A, rows of each of B.
        stack: Shape of the stack of results; empty for a single matrix.
        a_is_vector: Whether A has one axis, K.
        b_is_vector: Whether B has one axis, K.
        shares_b: Whether all matrices of A are multiplied by the same matrix.
    """

    m: int
    n: int
    k: int
    stack: Shape
    a_is_vector: bool
    b_is_vector: bool
    shares_b: bool

    @cached_property
    def shape(self) -> Shape:
        """Shape of the result."""
        rows = () if self.a_is_vector else (self.m,)
        columns = () if self.b_is_vector else (self.n,)
        return (*self.stack, *rows, *columns)

    @cached_property
    def rows(self) -> int:
        """Rows of all matrices of the result together."""
        return prod(self.stack) * self.m


@lru_cache(maxsize=1024)
def find_stack_problem(a_shape: Shape, b_shape: Shape) -> StackProblem:
    """The sizes of a product, by the rules of `numpy.matmul`.

    Raises:
        ProblemError: An operand is a scalar, A has another number of columns than B has rows, or
            the stacks cannot be broadcast against each other, or have too many axes.
    """
    for name, shape in (("a", a_shape), ("b", b_shape)):
        if not shape:
            raise ProblemError(
                f"shape of {name}", shape, "of at least one dimension; scalars are multiplied by *"
            )
    k = a_shape[-1]
    b_rows = b_shape[-2] if len(b_shape) > 1 else b_shape[0]
    if b_rows != k:
        wanted = f"(…, {k}, N)" if len(b_shape) > 1 else f"({k},)"
        raise ProblemError("shape of b", b_shape, f"{wanted}, as a has {k} columns")
    try:
        stack = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    except ValueError:
        limit = f"one whose axes before the last two broadcast with {a_shape[:-2]} of a"
        raise ProblemError("shape of b", b_shape, limit) from None
    except RuntimeError:  # NumPy describes no larger iterators
        axes = max(len(a_shape), len(b_shape)) - 2
        raise ProblemError("axes of a stack", axes, f"at most {_MOST_AXES}") from None
    m = a_shape[-2] if len(a_shape) > 1 else 1
    n = b_shape[-1] if len(b_shape) > 1 else 1
    shares_b = prod(b_shape[:-2]) == 1
    return StackProblem(m, n, k, stack, len(a_shape) == 1, len(b_shape) == 1, shares_b)


def unstack(
    a: Array, b: Array, c: Array, problem: StackProblem, *, fold: bool
) -> Iterator[Matrices]:
    """Parts of A, B and C for each product of single matrices, in the order of C.

    Args:
        a: The left operand.
        b: The right operand.
        c: The result.
        problem: Their sizes.
        fold: Whether matrices of A that share B are joined to one tall matrix. A is copied unless
            its rows follow each other in memory; the rows of C must do so.
    """
    m, n, k = problem.m, problem.n, problem.k
    if fold and problem.shares_b:
        yield a.reshape(-1, k), b.reshape(k, n), c.reshape(-1, n, copy=False)
        return
    stack = problem.stack
    a = a[np.newaxis, :] if problem.a_is_vector else a
    b = b[:, np.newaxis] if problem.b_is_vector else b
    a, b = np.broadcast_to(a, (*stack, m, k)), np.broadcast_to(b, (*stack, k, n))
    c = c.reshape(*stack, m, n, copy=False)
    for at in np.ndindex(*stack):
        yield a[at], b[at], c[at]
