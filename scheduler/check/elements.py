"""Computes elements of a product of floats again, more exactly, and compares them (`rounding`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.check.real_parts import take_columns
from wavetrim.scheduler.check.rounding import Expected, FloatProduct, judge_again, rate_errors
from wavetrim.scheduler.check.suspects import Suspicion

Matrix = NDArray[Any]

_BLOCK_ELEMENTS: Final = 1 << 22
"""Elements that are compared at a time; chosen."""


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
            expected = Expected(added, size, size, given)
            errors = rate_errors(product, product.out[part], expected)
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
    expected = Expected(values, size, np.maximum(sums, size), given)
    errors = rate_errors(product, product.out[rows, columns], expected)
    judge_again(product, rows, columns, errors)
    return errors


def _find_magnitudes(matrix: Matrix, axis: int) -> tuple[Matrix, NDArray[np.bool_]]:
    """Magnitudes, 0 where not finite; and which lines along an axis are all finite."""
    sizes: Matrix = np.abs(matrix)
    if np.isfinite(sizes.max(initial=0.0)):  # one test for most matrices
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
