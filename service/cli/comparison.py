"""Compares a product with NumPy's, element by element."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_accumulator, find_limits, is_integer

Array = NDArray[Any]

LISTED: Final = 10
"""The most differing elements that are listed; chosen."""

_BLOCK_ROWS: Final = 512


@dataclass(slots=True)
class Comparison:
    """Outcome of a comparison.

    Attributes:
        max_error: Largest |found - expected|.
        allowed: Largest error that the tolerance allows any element.
        differing: Elements outside the tolerance.
        first: Row, column, found and expected value of the first of them, by rows.
    """

    max_error: float = 0.0
    allowed: float = 0.0
    differing: int = 0
    first: list[tuple[int, int, complex, complex]] = field(default_factory=list)


def compare_product(found: Array, a: Array, b: Array) -> Comparison:
    """Compare a product M x N with NumPy's in float64 or complex128; integers, with the exact one.

    An element may be off by the rounding of its sum. The K additions err to either side, so
    their errors grow as the square root of K (Higham and Mary, A new approach to probabilistic
    rounding error analysis, 2019): |error| <= 4 sqrt(K) u |a_i| |b_j|, with the lengths of A's row
    and B's column, and u the roundoff of the element type (of float32 for halves, which are summed
    in it). A part of a complex element is a sum of 2 K products. Integers must agree, modulo their
    word size; |A||B| must be below 2**53.
    """
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    wide = b.astype(kind)
    column_lengths = np.linalg.norm(wide, axis=0)
    compared = Comparison()
    for start in range(0, a.shape[0], _BLOCK_ROWS):
        rows = a[start : start + _BLOCK_ROWS].astype(kind)
        block, expected = found[start : start + _BLOCK_ROWS], rows @ wide
        if is_integer(found.dtype):
            expected = expected.astype(np.int64).astype(found.dtype).astype(np.float64)
            limit = np.zeros(expected.shape)
        else:
            lengths = np.linalg.norm(rows, axis=1)[:, None] * column_lengths
            limit = _find_limit(expected, lengths, found.dtype, a.shape[1])
        error = np.abs(block.astype(kind) - expected)
        wrong = ~(error <= limit)  # NaN is wrong, too
        compared.max_error = max(compared.max_error, float(np.max(error)))
        compared.allowed = max(compared.allowed, float(np.max(limit)))
        compared.differing += int(np.count_nonzero(wrong))
        for row, column in np.argwhere(wrong)[: LISTED - len(compared.first)].tolist():
            values = block[row, column].item(), expected[row, column].item()
            compared.first.append((start + row, column, *values))
    return compared


def _find_limit(expected: Array, lengths: Array, dtype: np.dtype[Any], k: int) -> Array:
    """The error that each element may have."""
    roundoff = float(find_limits(find_accumulator(dtype)).eps) / 2
    summed = 4 * np.sqrt(k) * roundoff * lengths
    if dtype in (np.float64, np.complex128):
        summed *= 2  # the reference errs as much
    if dtype.kind == "c":
        summed *= 2
    return np.asarray(summed + float(find_limits(dtype).eps) * np.abs(expected))
