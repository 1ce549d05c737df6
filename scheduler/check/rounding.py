"""How far an element of a product of floats may be from the exact one by rounding alone.

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

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_accumulator, find_limits
from wavetrim.scheduler.check.real_parts import take_column

Matrix = NDArray[Any]

_RIGHT: Final = 4.0
"""Largest error of a right element, as a multiple of the statistical bound of rounding; chosen on
`benchmarks.verify`."""

_JUDGED: Final = 32
"""Most elements of a part that are summed in several orders: those with the largest errors."""

_LANES: Final = (1, 8, 256)
"""Partial sums of these orders: one, the lanes of a vector, the threads of a block."""


@dataclass(frozen=True, slots=True)
class FloatProduct:
    """A product of floats to be checked.

    Attributes:
        a: M x K; of a complex product the real numbers (`real_parts`), as are C and `out`.
        b: K x N; complex as it is.
        c: M x N, C before the product; None if it is not read.
        out: M x N.
        alpha: Factor of the product, rounded to the accumulator's type.
        beta: Factor of C, rounded to the same type.
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
        """Consecutive real numbers that make an element: two if it is complex."""
        return 2 if self.b.dtype.kind == "c" else 1


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected values of some elements, in float64.

    Attributes:
        values: The elements.
        size: |α||A||B| + |β||C₀| of finite operands.
        reach: Largest magnitude of partial sums, before or after the factors.
        given: Whether all operands of the element are finite.
    """

    values: Matrix
    size: Matrix
    reach: Matrix
    given: NDArray[np.bool_]


def rate_errors(product: FloatProduct, out: Matrix, expected: Expected) -> Matrix:
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
    """Whether it holds for one part of a complex element, for each part."""
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


def judge_again(
    product: FloatProduct, rows: NDArray[np.intp], columns: slice, errors: Matrix
) -> None:
    """Rate elements between both bounds again, those with the largest errors.

    If one element is beyond the bound for any order, the product is wrong, and all errors stay.
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
    """The error of one element, as a multiple of the error allowed in its own precision."""
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
