"""Elements of a product of floats, compared with a more exact one.

There are two rounding errors. Storing an element rounds once: u·|C_ij|. Summing K products rounds
each partial sum: at most (K + 2)·u·(|α||A||B| + |β||C₀|) in any order (N. Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 3.5), and about √K·u if roundings are independent
(N. Higham and T. Mary, A new approach to probabilistic rounding error analysis, 2019). An element

- is right within 4·u·(|α||A||B| + |β||C₀|) and the rounding of storage,
- is wrong beyond the bound for any order,
- and between the two is computed again in its own precision, in several orders, because roundings
  are not always independent: equal factors, for example, round alike in every step. It may then err
  by four times the errors found, and by four times u·√(Σ p²), p being the partial sums.

Infinities and NaNs must be those of the exact product. If sums may overflow on their way, the
element may be any infinity or NaN. So may a complex element of which one part may be: libraries
multiply both by complex factors, and make NaN of an infinity times the 0 of a real one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_accumulator, find_limits
from wavetrim.scheduler.check.real_parts import take_column, take_columns
from wavetrim.scheduler.check.suspects import Suspicion

Matrix = NDArray[Any]

_RIGHT: Final = 4.0
"""Largest error of a right element, as a multiple of the statistical bound of rounding; chosen on
`benchmarks.verify.damage`."""

_JUDGED: Final = 32
"""Most elements of a part that are summed in several orders: those with the largest errors."""

_LANES: Final = (1, 8, 256)
"""Partial sums of these orders: one, as many as a vector's lanes, as many as a block's."""

_BLOCK_ELEMENTS: Final = 1 << 22
"""Elements that are compared at a time; chosen."""


@dataclass(frozen=True, slots=True)
class FloatProduct:
    """A product of floats to be checked.

    Attributes:
        a: M x K; of a complex product the real numbers (`real_parts`), as are C and `out`.
        b: K x N; complex as it is.
        c: M x N, C before the product; None if it is not read.
        out: M x N.
        alpha: Factor of the product, rounded to the accumulator's type.
        beta: Factor of C, likewise.
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    out: Matrix
    alpha: float
    beta: float

    @property
    def summed(self) -> "np.finfo[Any]":
        """The type in which it is summed."""
        return np.finfo(find_accumulator(self.out.dtype))

    @property
    def parts(self) -> int:
        """Neighbours that are an element together: two if it is complex."""
        return 2 if self.b.dtype.kind == "c" else 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of elements that were computed again.

    Attributes:
        compared: Number of elements.
        max_error: Largest error, as a multiple of the allowed one; infinite if only one of both
            values is finite.
        wrong_rows: Rows with an error above 1, in order.
    """

    compared: int
    max_error: float
    wrong_rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Expected:
    """Expected values of some elements, in float64.

    Attributes:
        values: The elements.
        size: |α||A||B| + |β||C₀| of finite operands.
        reach: Largest magnitude of partial sums, before or after the factors.
        given: Whether all operands of an element are finite.
    """

    values: Matrix
    size: Matrix
    reach: Matrix
    given: NDArray[np.bool_]


def compare_elements(product: FloatProduct, suspicion: Suspicion) -> Comparison:
    """Compute the elements under suspect checksums again, and compare them."""
    compared, largest = 0, 0.0
    wrong: set[int] = set()
    with np.errstate(all="ignore"):
        for rows, columns in _cut(product, suspicion):
            errors = _measure_errors(product, rows, columns)
            compared += errors.size
            largest = max(largest, float(errors.max()))
            wrong.update(rows[(errors > 1).any(axis=1)].tolist())
    return Comparison(compared // product.parts, largest, tuple(sorted(wrong)))


def compare_scaled(product: FloatProduct) -> Comparison:
    """Compare a product without terms of A·B, which is βC, element by element."""
    rows = product.out.shape[0]
    step = max(1, _BLOCK_ELEMENTS // product.out.shape[1])
    largest = 0.0
    wrong: set[int] = set()
    for first in range(0, rows, step):
        part = np.arange(first, min(rows, first + step))
        with np.errstate(all="ignore"):
            added = _scale_c(product, part, slice(None))
            given = np.isfinite(added)
            size = np.abs(added, where=given, out=np.zeros_like(added))
            expected = _Expected(added, size, size, given)
            errors = _rate(product, product.out[part], expected)
        largest = max(largest, float(errors.max()))
        wrong.update(part[(errors > 1).any(axis=1)].tolist())
    return Comparison(product.out.size // product.parts, largest, tuple(sorted(wrong)))


def _cut(product: FloatProduct, suspicion: Suspicion) -> Iterator[tuple[NDArray[np.intp], slice]]:
    """Rows and columns of the suspect blocks; blocks of the same columns together."""
    depth, width = product.a.shape[1], suspicion.width
    step = max(1, _BLOCK_ELEMENTS // max(depth, width))
    # Blocks that are suspect in the same rows, as in a row with a NaN, are taken together.
    start, blocks = 0, suspicion.wrong.shape[1]
    while start < blocks:
        rows = np.flatnonzero(suspicion.wrong[:, start])
        end = start + 1
        while (
            end < blocks
            and (end - start) * width < 256
            and np.array_equal(rows, np.flatnonzero(suspicion.wrong[:, end]))
        ):
            end += 1
        for first in range(0, rows.size, step):
            yield rows[first : first + step], slice(start * width, end * width)
        start = end


def _measure_errors(product: FloatProduct, rows: NDArray[np.intp], columns: slice) -> Matrix:
    """Errors as multiples of the allowed ones, rows x columns."""
    a = product.a[rows].astype(np.float64)
    b = take_columns(product.b, columns).astype(np.float64)
    values = product.alpha * (a @ b)
    (sizes_a, finite_a), (sizes_b, finite_b) = _find_magnitudes(a, 1), _find_magnitudes(b, 0)
    sums = sizes_a @ sizes_b
    size = abs(product.alpha) * sums
    given: NDArray[np.bool_] = np.logical_and.outer(finite_a, finite_b)
    if product.c is not None:
        added = _scale_c(product, rows, columns)
        values += added
        finite_c = np.isfinite(product.c[rows, columns])
        # βC may overflow by itself, but not when it is fused with the sum.
        size += np.abs(added, where=finite_c, out=np.zeros_like(added))
        given &= finite_c
    expected = _Expected(values, size, np.maximum(sums, size), given)
    errors = _rate(product, product.out[rows, columns], expected)
    _judge_again(product, rows, columns, errors)
    return errors


def _find_magnitudes(matrix: Matrix, axis: int) -> tuple[Matrix, NDArray[np.bool_]]:
    """Magnitudes, 0 for what is not finite; and which lines along an axis are all finite."""
    sizes: Matrix = np.abs(matrix)
    if np.isfinite(sizes.max(initial=0.0)):  # in one go for most
        return sizes, np.ones(sizes.shape[1 - axis], np.bool_)
    finite = np.isfinite(sizes)
    sizes[~finite] = 0.0
    lines: NDArray[np.bool_] = np.logical_and.reduce(finite, axis=axis)
    return sizes, lines


def _scale_c(product: FloatProduct, rows: NDArray[np.intp], columns: slice) -> Matrix:
    if product.c is None:
        return np.zeros(product.out[rows, columns].shape)
    scaled: Matrix = product.beta * product.c[rows, columns].astype(np.float64)
    return scaled


def _rate(product: FloatProduct, out: Matrix, expected: _Expected) -> Matrix:
    """Errors as multiples of the smaller bound; 0 or infinity for elements that are not finite."""
    found = out.astype(np.float64)
    values, given = expected.values, expected.given
    bound = _RIGHT * _roundoff(product) * expected.size + _bound_storage(product, values)
    errors: Matrix = np.abs(found - values) / bound
    stored = find_limits(out.dtype)
    # Up to half a unit beyond the largest number is rounded down to it.
    most = float(stored.max) * (1 + float(stored.eps) / 4)
    sums_may_overflow = ~(expected.reach < float(product.summed.max) / 2)
    may_overflow = sums_may_overflow | ~(np.abs(values) + bound < most)
    if product.parts == 2:
        may_overflow = _join_parts(may_overflow | ~given)
    finite = np.isfinite(found)
    errors[~finite] = np.where(may_overflow, 0.0, np.inf)[~finite]
    must_overflow = given & (np.abs(values) - bound > most) & np.isfinite(values)
    errors[finite & must_overflow] = np.inf
    errors[finite & given & ~np.isfinite(values)] = 0.0
    same = (found == values) | (np.isnan(found) & np.isnan(values))
    same |= ~finite & sums_may_overflow
    if product.parts == 2 or not np.isfinite((product.alpha, product.beta)).all():
        same |= ~finite
    errors[~given] = np.where(same, 0.0, np.inf)[~given]
    return errors


def _join_parts(parts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What holds for one part of a complex element, for both."""
    either = parts.reshape(len(parts), -1, 2).any(axis=2)
    return np.repeat(either, 2, axis=1)


def _roundoff(product: FloatProduct) -> float:
    return float(product.summed.eps) / 2


def _bound_storage(product: FloatProduct, expected: Any) -> Any:
    """Rounding when an element is stored, and of partial sums below the normal range."""
    stored = find_limits(product.out.dtype)
    terms = (product.a.shape[1] * abs(product.alpha) + 2) * float(product.summed.smallest_subnormal)
    rounding = np.minimum(np.abs(expected), float(stored.max)) * float(stored.eps)
    return rounding + float(stored.smallest_subnormal) + terms


def _judge_again(
    product: FloatProduct, rows: NDArray[np.intp], columns: slice, errors: Matrix
) -> None:
    """Rate elements above the smaller bound again, those with the largest errors.

    An element beyond the bound for any order keeps its error, which is above 1.
    """
    any_order = (product.a.shape[1] + 4) / _RIGHT
    open_ = (errors > 1) & (errors <= any_order)
    if (errors > any_order).any() or not open_.any():
        return
    order = np.argsort(np.where(open_, errors, 0.0), axis=None)[::-1]
    judged = order[: min(_JUDGED, int(np.count_nonzero(open_)))]
    within = np.minimum(errors, 1.0)  # the others have smaller errors than those judged
    first = columns.start or 0
    for place in judged:
        row, column = np.unravel_index(place, errors.shape)
        within[row, column] = _rate_by_orders(product, int(rows[row]), first + int(column))
    errors[...] = within


def _rate_by_orders(product: FloatProduct, row: int, column: int) -> float:
    """The error of one element, as a multiple of that allowed for sums in its precision."""
    summed = product.summed.dtype
    left = product.a[row].astype(summed)
    right = take_column(product.b, column).astype(summed)
    exact_terms = left.astype(np.longdouble) * right.astype(np.longdouble)
    exact = exact_terms.sum()
    terms = left * right
    found_errors, squares = [], []
    for lanes in _LANES:
        padded = np.zeros(-(-terms.size // lanes) * lanes, summed)
        padded[: terms.size] = terms
        for parts in (padded.reshape(-1, lanes), padded.reshape(lanes, -1).T, padded[::-1, None]):
            partial = np.add.accumulate(parts, axis=0)
            total = np.add.accumulate(partial[-1])
            found_errors.append(abs(float(total[-1] - exact)))
            squares.append(float(np.sum(partial.astype(np.float64) ** 2) + np.sum(total**2)))
    allowed = (
        abs(product.alpha)
        * _RIGHT
        * (max(found_errors) + _roundoff(product) * float(np.sqrt(max(squares))))
    )
    expected = product.alpha * exact
    if product.c is not None:
        added = product.beta * float(product.c[row, column])
        allowed += _RIGHT * _roundoff(product) * (abs(float(expected)) + abs(added))
        expected += added
    allowed += float(_bound_storage(product, float(expected)))
    return float(abs(np.longdouble(float(product.out[row, column])) - expected)) / allowed
