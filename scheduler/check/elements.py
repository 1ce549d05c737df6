"""Compares elements of a product of floats with a more exact product.

There are two rounding errors. Storing an element rounds once: u·|C_ij|. Summing K products rounds
each partial sum: at most (K + 2)·u·(|α||A||B| + |β||C₀|) in any order (N. Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 3.5), and about √K·u if roundings are independent
(N. Higham and T. Mary, A new approach to probabilistic rounding error analysis, 2019). An element

- is right within 4·u·(|α||A||B| + |β||C₀|) and the rounding of storage,
- is wrong beyond the bound for any order,
- and between the two is computed again in its own precision, in several orders, because roundings
  are not always independent: equal factors, for example, round alike in every step. It may then err
  by four times the errors found, and by four times u·√(Σ p²), p being the partial sums.

Infinities and NaNs must be those of the exact product. If partial sums may overflow, the element
may be any infinity or NaN. If this holds for one part of a complex element, it holds for both:
libraries multiply both by complex factors, and infinity times the 0 of a real factor is NaN.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_limits
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.product import EngineProduct

Rows = NDArray[np.intp]
Suspects = NDArray[np.bool_]

_BLOCK_ELEMENTS: Final = 1 << 22
"""Elements that are compared at a time; chosen."""

_TOGETHER: Final = 256
"""Columns that are compared at a time, if they are suspect in the same rows; chosen."""

_RIGHT: Final = 4.0
"""Largest error of a right element, as a multiple of the statistical bound of rounding; chosen on
`benchmarks.verify`."""

_JUDGED: Final = 32
"""Most elements of a part that are summed in several orders: those with the largest errors."""

_LANES: Final = (1, 8, 256)
"""Partial sums of these orders: one, the lanes of a vector, the threads of a block."""


def compare_elements(
    product: EngineProduct, suspects: Suspects, width: int
) -> tuple[int, float, tuple[int, ...]]:
    """Compute the elements of suspect blocks (rows x blocks) again, and compare them.

    A block is `width` columns of a row. The product is of floats or complex numbers.

    Returns:
        The number of elements; the largest error, as a multiple of the allowed one, infinite if
        only one of both values is finite; and the rows with an error above 1, in order.
    """
    compared, largest = 0, 0.0
    wrong: set[int] = set()
    with np.errstate(all="ignore"):
        for rows, columns in _cut(suspects, width, len(product.b)):
            errors = _measure_errors(product, rows, columns)
            compared += errors.size
            largest = max(largest, float(errors.max()))
            wrong.update(rows[(errors > 1).any(axis=1)].tolist())
    return compared, largest, tuple(sorted(wrong))


def _cut(suspects: Suspects, width: int, depth: int) -> Iterator[tuple[Rows, slice]]:
    """Rows and columns of suspect blocks; neighbours that are suspect in the same rows together."""

    def describe(block: int) -> tuple[int, bytes]:
        return block * width // _TOGETHER, suspects[:, block].tobytes()

    step = max(1, _BLOCK_ELEMENTS // max(depth, width))
    for _, group in groupby(np.flatnonzero(suspects.any(axis=0)).tolist(), describe):
        blocks = list(group)
        rows = np.flatnonzero(suspects[:, blocks[0]])
        for first in range(0, rows.size, step):
            yield rows[first : first + step], slice(blocks[0] * width, (blocks[-1] + 1) * width)


def _measure_errors(product: EngineProduct, rows: Rows, columns: slice) -> Matrix:
    """Errors as multiples of the allowed ones, rows x columns; of two parts the larger."""
    exact = np.result_type(product.sum_type, np.float64)
    a, b = product.a[rows].astype(exact), product.b[:, columns].astype(exact)
    finite_a, finite_b = np.isfinite(a), np.isfinite(b)
    sums = np.where(finite_a, np.abs(a), 0) @ np.where(finite_b, np.abs(b), 0)
    # Whether all operands of an element are finite.
    given: NDArray[np.bool_] = np.logical_and.outer(finite_a.all(axis=1), finite_b.all(axis=0))
    # From here on: rows x columns x parts.
    values = _view_parts(product.alpha * (a @ b))
    found = _view_parts(product.out[rows, columns].astype(exact))
    sums, given = sums[..., None], given[..., None]
    size = abs(product.alpha) * sums
    if product.c is not None:
        before = _view_parts(product.c[rows, columns].astype(exact))
        added, finite_c = product.beta * before, np.isfinite(before)
        values = values + added
        # βC may overflow by itself, but not when it is fused with the sum.
        size = size + np.where(finite_c, np.abs(added), 0)
        given = given & finite_c
    stored, summed = find_limits(product.out.dtype), np.finfo(product.sum_type)
    bound = _RIGHT * float(summed.eps) / 2 * size + _bound_storage(product, values)
    # Up to half a unit beyond the largest number is rounded down to it.
    most = float(stored.max) * (1 + float(stored.eps) / 4)
    sums_overflow = ~(np.maximum(sums, size) < float(summed.max) / 2)
    overflows = sums_overflow | ~(np.abs(values) + bound < most).all(axis=2, keepdims=True)
    same = (found == values) | (np.isnan(found) & np.isnan(values)) | sums_overflow
    if found.shape[2] == 2 or not np.isfinite((product.alpha, product.beta)).all():
        same[...] = True
    errors = np.where(np.isfinite(values), np.abs(found - values) / bound, 0.0)
    errors = np.where(given, errors, np.inf)
    others = np.where(np.where(given, overflows, same), 0.0, np.inf)
    rated: Matrix = np.where(np.isfinite(found), errors, others).max(axis=2)
    _judge_again(product, rows, columns.start, rated)
    return rated


def _view_parts(matrix: Matrix) -> Matrix:
    """Both parts of complex elements, or the one of real ones, along a third axis."""
    return matrix.view(np.float64).reshape(*matrix.shape, -1)


def _bound_storage(product: EngineProduct, expected: Any) -> Any:
    """Rounding when an element is stored, and of partial sums below the normal range."""
    stored, summed = find_limits(product.out.dtype), np.finfo(product.sum_type)
    roundings = 2 * len(product.b) * abs(product.alpha) + 2
    least = float(stored.smallest_subnormal) + roundings * float(summed.smallest_subnormal)
    return np.minimum(np.abs(expected), float(stored.max)) * float(stored.eps) + least


def _judge_again(product: EngineProduct, rows: Rows, first: int, errors: Matrix) -> None:
    """Rate elements between both bounds again, by sums in their own precision.

    If one element is beyond the bound for any order, the product is wrong, and all errors stay.
    """
    count, depth, kind = int(np.count_nonzero(errors > 1)), len(product.b), product.sum_type
    if count == 0 or errors.max() > (2 * depth + 4) / _RIGHT:  # a complex one has 2K terms
        return
    largest = np.argsort(errors, axis=None)[: -min(count, _JUDGED) - 1 : -1]
    judged = np.unravel_index(largest, errors.shape)
    indices = rows[judged[0]], first + judged[1]
    left, right = product.a[indices[0]].astype(kind), product.b[:, indices[1]].T.astype(kind)
    terms, exact = left * right, np.sum(left.astype(np.result_type(kind, "g")) * right, axis=1)
    rounding, roundoff = np.zeros(len(exact)), float(np.finfo(kind).eps) / 2
    for lanes in _LANES:
        padded = np.zeros((len(exact), -(-depth // lanes) * lanes), kind)
        padded[:, :depth] = terms
        partial = np.add.accumulate(padded.reshape(len(exact), -1, lanes), axis=1)
        total = np.add.accumulate(partial[:, -1], axis=1)
        sums = np.abs(np.concatenate((partial, total[:, None]), axis=1)).astype(np.float64)
        found_error = np.abs(total[:, -1] - exact).astype(np.float64)
        statistical = roundoff * np.sqrt((sums**2).sum(axis=(1, 2)))
        rounding = np.maximum(rounding, found_error + statistical)
    expected = product.alpha * exact
    rounding = abs(product.alpha) * rounding + roundoff * np.abs(expected)
    if product.c is not None:
        added = product.beta * product.c[indices].astype(exact.dtype)
        rounding += roundoff * np.abs(added)
        expected += added
    change = product.out[indices].astype(exact.dtype) - expected
    allowed = _RIGHT * rounding + _bound_storage(product, np.abs(expected))
    np.minimum(errors, 1.0, out=errors)  # the others have smaller errors than those judged
    errors[judged] = np.maximum(np.abs(change.real), np.abs(change.imag)) / allowed
