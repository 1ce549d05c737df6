"""Products: their description, and their computation in one thread, for each element type.

float32, float64 and complex numbers use BLAS. float16 and bfloat16 are summed in float32, a part of
K at a time. Integers wrap around, as in NumPy. Those of 8 and 16 bits use BLAS in float64, which is
exact while every partial sum is below 2**53; wider ones use NumPy's own loops.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from wavetrim.cpu.errors import ProductCancelled
from wavetrim.native.element_types import BLAS_DTYPES, HALVES, find_accumulator, is_integer
from wavetrim.native.plain import Matrix
from wavetrim.native.tuned import TEMPORARY_ELEMENTS

DTYPES = frozenset(
    np.dtype(name)
    for name in (
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
)
"""Element types that can be multiplied."""


class Reports(NamedTuple):
    """Functions that a product calls in the calling thread as it is computed; None for none.

    Attributes:
        progress: Called with the rows newly finished.
        cancelled: Polled before each block; True ends the product.
        final: Called with all rows that are final so far; only for products of C threads.
    """

    progress: Callable[[float], None] | None = None
    cancelled: Callable[[], bool] | None = None
    final: Callable[[Sequence[range]], None] | None = None

    def end_if_cancelled(self) -> None:
        """Raise `ProductCancelled` if `cancelled` returns True."""
        if self.cancelled is not None and self.cancelled():
            raise ProductCancelled("the product was cancelled")


NO_REPORTS: Final = Reports()


class _Quiet(threading.local):
    """A thread's context without NumPy's warnings. `np.errstate` would take 10 µs a product."""

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(np.seterr, all="ignore")


quiet: Final = _Quiet()
"""Runs calls without NumPy's warnings: `quiet.context.run(function, ...)`."""


def multiply_alone(a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float) -> None:
    """Compute a small product (`blocks.is_small`) in the calling thread.

    As in BLAS, β = 0 never reads C, and α = 0 neither A nor B.

    Args:
        a: A[M,K], any strides, or a stack of matrices by NumPy's rules.
        b: B[K,N], likewise.
        c: C[M,N], likewise, writable. It may share memory with A or B where β is 0.
        alpha: Factor of the product; a whole number for integers.
        beta: Factor of C; a whole number for integers.
    """
    if alpha == 1 and beta == 0:
        multiply_quietly(a, b, c)
    elif alpha == 0:
        quiet.context.run(scale, c, beta)
    else:
        if a.dtype in HALVES:  # rounded once, after the factors
            a, b = a.astype(np.float32), b.astype(np.float32)
        product = np.asarray(quiet.context.run(np.matmul, a, b))
        quiet.context.run(partial(combine, product, c, alpha=alpha, beta=beta))


def multiply_block(a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float) -> None:
    """C ← αA·B + βC for one block, in place.

    Args:
        a: Rows of A, [r, k], any strides.
        b: Columns of B, [k, s], any strides.
        c: The block of C, [r, s], any strides; read only when `beta` is not 0.
        alpha: Factor of the product; a whole number for integers.
        beta: Factor of C; a whole number for integers.
    """
    if beta == 0 and a.dtype in BLAS_DTYPES:
        multiply_plainly(a, b, c)
        if alpha != 1:
            c *= c.dtype.type(alpha)
        return
    combine(form_product(a, b), c, alpha=alpha, beta=beta)


def multiply_quietly(a: Matrix, b: Matrix, c: Matrix) -> None:
    """`multiply_plainly` without NumPy's warnings."""
    quiet.context.run(multiply_plainly, a, b, c)


def multiply_plainly(a: Matrix, b: Matrix, c: Matrix) -> None:
    """C ← A·B by NumPy, also of stacks. With K = 1 its `matmul` takes four times as long or more.

    Raises:
        ValueError: The shapes do not fit.
    """
    is_outer = a.ndim > 1 and a.shape[-1:] == b.shape[-2:-1] == (1,)
    if is_outer and c.shape[-2:] == a.shape[-2:-1] + b.shape[-1:]:
        np.multiply(a, b, c)
    else:
        np.matmul(a, b, c)


def form_product(a: Matrix, b: Matrix) -> Matrix:
    """A·B as a new array in the type's accumulator (see `find_accumulator`)."""
    dtype = a.dtype
    if dtype in BLAS_DTYPES:
        product: Matrix = np.matmul(a, b)
        return product
    is_short = is_integer(dtype) and dtype.itemsize <= 2
    factors = np.dtype(np.float32) if dtype in HALVES else np.dtype(np.float64)
    total = np.zeros((a.shape[0], b.shape[1]), find_accumulator(dtype))
    for depth in _cut_depth(a, b):
        left, right = a[:, depth], b[depth]
        if is_integer(dtype) and not is_short:
            # NumPy's loop runs down the columns of B, which is fast when they are contiguous.
            total += np.matmul(left, np.asfortranarray(right))
            continue
        part = np.matmul(left.astype(factors), right.astype(factors))
        # 2**16 * 2**16 * 2**18 < 2**53: every sum within one part of K is exact in float64.
        total += part.astype(np.int64).astype(dtype) if is_short else part
    return total


def combine(product: Matrix, c: Matrix, *, alpha: float, beta: float) -> None:
    """C ← α·product + βC in place; `product` is overwritten, C is read only when β is not 0."""
    kind = product.dtype
    if alpha != 1:
        product *= _cast_factor(alpha, kind)
    if beta != 0:
        product += c if beta == 1 else c.astype(kind) * _cast_factor(beta, kind)
    np.copyto(c, product, casting="same_kind")


def scale(c: Matrix, beta: float) -> None:
    """C ← βC in place; β = 0 clears C whatever it holds."""
    if beta == 0:
        c[...] = 0
    elif beta != 1:
        # 16-bit types cannot represent every factor, so they are scaled in float32, as sums are.
        factor = _cast_factor(beta, find_accumulator(c.dtype))
        np.multiply(c, factor, out=c, casting="same_kind")


def _cast_factor(factor: float, dtype: np.dtype[Any]) -> Any:
    """A factor as a scalar of `dtype`; a whole number beyond an integer type's range wraps."""
    if is_integer(dtype):
        return np.uint64(int(factor) % 2**64).astype(dtype)
    return dtype.type(factor)


def _cut_depth(a: Matrix, b: Matrix) -> Iterator[slice]:
    """Parts of K with at most TEMPORARY_ELEMENTS of A and of B, or of one column and row."""
    step = max(1, TEMPORARY_ELEMENTS // max(a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], step):
        yield slice(start, start + step)
