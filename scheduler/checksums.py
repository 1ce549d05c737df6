"""Checksums of a product's rows, over blocks of its columns, beside those of its factors.

For a row i, a block J of w columns and random weights s of either sign (R. Freivalds, Probabilistic
machines can use less running time, 1977), scaled by powers of two d that make B's columns of about
one size:

    r_iJ = Σ_j s_j d_j (C_ij - α (A B)_ij - β C₀_ij) = (C S)_iJ - α (A (B S))_iJ - β (C₀ S)_iJ

One wrong element shows whatever its sign. The rounding of w right elements adds up as √w, so that
narrow blocks let a change show that is a few times the error of one element. Two equal changes
cancel where they are in one block and the weights say so. These are ±1, ±1.25, ±1.5 or ±1.75, of
which one in eight is the other's equal: they cancel with probability w / 8N, not w / 2N as with ±1.

The cost is that of N/w columns of the product, and that of reading B and C once. The width is the
power of two at or below N^1.5 / 2048, from 1 to 128: 1/128 of the product from N = 4096 on, and
every element by itself below N = 257, where a product takes little time anyway.

The sums are of the product's own precision: their rounding is then about that of the elements, and
is found in the same way, as a multiple of the row's size that is the median of the r_iJ.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

_WIDEST: Final = 128
"""Most columns of a block: then the check has 1/128 of a product's operations."""

_WEIGHTS: Final = (-1.75, -1.5, -1.25, -1.0, 1.0, 1.25, 1.5, 1.75)
"""What columns are weighted with; each is exact in every type."""

_SAMPLED_ROWS: Final = 128
"""Rows of B, about, from which the size of its columns is told."""

_BLOCK_BYTES: Final = 32 * 2**20
"""So much memory the sums of some rows take at a time; chosen, not measured."""

_SIGMAS: Final = 6.0
"""Standard deviations that a right checksum stays within, but for about one in 10^9 (normal)."""

_SIGMAS_PER_MEDIAN: Final = 1 / 0.6745
"""A normal variable's standard deviation over the median of its size."""

_LEAST_ROUNDINGS: Final = 0.5
"""The least deviation that is believed, in units of the sums' rounding: that of one rounding."""

_ALWAYS: Final = 1
"""So many blocks, those that stand out most, are compared in any case."""

_SAMPLED_SUMS: Final = 1 << 15
"""Checksums, about, of which the median is taken."""

_FEW: Final = 16
"""With more suspects elements are of very different sizes, and those that stand out by their own
column's size, or their block's, are compared, too; chosen on `benchmarks.damage`."""

_MOST: Final = 256
"""Most suspects that are compared: what stands out less is left; chosen on `benchmarks.damage`."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Checksums that may be wrong.

    Attributes:
        width: Columns of a block.
        wrong: Which are to be looked into, row by block: those beyond the limit (256 of them at
            most), those that are not finite, and the largest. Where many are beyond it, also
            those that are the largest as they are, and beside the sums they are compared with.
        largest: The largest finite checksum, in units of its row's size.
        limit: What it may be: six standard deviations.
    """

    width: int
    wrong: NDArray[np.bool_]
    largest: float
    limit: float


def find_detectable(suspicion: Suspicion) -> float:
    """A change of an element that its checksum shows, in units of its row's root mean square."""
    mean_square = float(np.mean(np.square(_WEIGHTS)))
    return 2 * suspicion.limit * float(np.sqrt(suspicion.width * mean_square))


def find_caught(width: int, columns: int) -> float:
    """The probability that two equal changes, anywhere in a row, do not cancel."""
    return 1 - (width - 1) / (len(_WEIGHTS) * max(1, columns - 1))


def choose_width(columns: int) -> int:
    """Columns of a block of which there is one checksum."""
    return min(_WIDEST, 1 << max(0, int(np.log2(columns**1.5 / 2048))))


def find_suspects(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    alpha: float,
    beta: float,
    random: np.random.Generator,
) -> Suspicion:
    """Compare the checksums of `out` with those of its factors.

    Args:
        a: M x K floats.
        b: K x N, likewise.
        c: M x N, likewise: the C before the product; None when it is not to be read.
        out: M x N, the product.
        alpha: Factor of the product.
        beta: Factor of C.
        random: Draws the weights.
    """
    work = np.dtype(np.float64 if out.dtype == np.float64 else np.float32)
    columns = out.shape[1]
    width = choose_width(columns)
    chosen = random.choice(np.array(_WEIGHTS, work), columns)
    with np.errstate(all="ignore"):
        scales = _find_scales(b, work)
        weights = chosen * scales
        expected = _multiply(a, _sum_blocks(b, weights, width)) * work.type(alpha)
        local = np.abs(expected)
        sizes = _measure_rows(expected)
        differences = _sum_blocks(out, weights, width)
        differences -= expected
        if c is not None:
            added = _sum_blocks(c, weights, width) * work.type(beta)
            local = np.maximum(local, np.abs(added))
            sizes = np.maximum(sizes, _measure_rows(added))
            differences -= added
        differences = np.abs(differences)
        ratios = differences / sizes
        ratios[differences == 0] = 0.0
        wrong = ~np.isfinite(ratios)
        finite = ~wrong
        usual = ratios[finite]
        limit = _find_limit(usual)
        beyond = int(np.count_nonzero(usual > limit))
        _add_largest(wrong, ratios, finite, max(_ALWAYS, min(beyond, _MOST)))
        if beyond > _FEW:
            # Elements of very different sizes: a row's size says little of each of them.
            unscaled = 1 / np.minimum.reduceat(scales, np.arange(0, columns, width))
            _add_largest(wrong, differences * unscaled, finite, _ALWAYS)
            _add_largest(wrong, differences / local, finite & (differences > 0), _MOST)
    return Suspicion(width, wrong, float(np.max(usual, initial=0.0)), limit)


def _find_limit(usual: Matrix) -> float:
    """What is beyond this stands out."""
    sample = usual[:: max(1, usual.size // _SAMPLED_SUMS)]
    median = float(np.median(sample)) if usual.size else 0.0
    rounding = _LEAST_ROUNDINGS * float(np.finfo(usual.dtype).eps)
    return _SIGMAS * max(_SIGMAS_PER_MEDIAN * median, rounding)


def _add_largest(
    wrong: NDArray[np.bool_], values: Matrix, among: NDArray[np.bool_], count: int
) -> None:
    ranked = np.where(among & ~np.isnan(values), values, -1.0).ravel()
    count = min(count, int(np.count_nonzero(among)))
    if count == 1:
        wrong.ravel()[np.argmax(ranked)] = True
    elif count:
        wrong.ravel()[np.argpartition(ranked, -count)[-count:]] = True


def _measure_rows(sums: Matrix) -> Matrix:
    """The root mean square of each row, as a column; of rows that overflow, their largest."""
    largest = np.max(np.abs(sums), axis=1, keepdims=True)
    scaled = sums / np.where(largest > 0, largest, 1)
    sizes: Matrix = largest * np.sqrt(np.mean(scaled * scaled, axis=1, keepdims=True))
    return sizes


def _find_scales(b: Matrix, work: np.dtype[Any]) -> Matrix:
    """Powers of two near the inverse of each column's largest element, by a sample of rows.

    They only have to bring columns near one size, so a sample will do.
    """
    sample = b[:: -(-b.shape[0] // _SAMPLED_ROWS)].astype(work)
    _, exponents = np.frexp(np.max(np.abs(sample), axis=0))
    most = np.finfo(work).maxexp // 2
    scales: Matrix = np.ldexp(work.type(1), -np.clip(exponents, -most, most)).astype(work)
    return scales


def _sum_blocks(matrix: Matrix, weights: Matrix, width: int) -> Matrix:
    """The weighted sums of each row over the blocks of columns."""
    rows, columns = matrix.shape
    starts = range(0, columns, width)
    sums = np.empty((rows, len(starts)), weights.dtype)
    step = max(1, _BLOCK_BYTES // (weights.itemsize * columns))
    for first in range(0, rows, step):
        part = _convert(matrix[first : first + step], weights.dtype)
        target = sums[first : first + step]
        if width == 1:
            np.multiply(part, weights, out=target)
            continue
        for index, start in enumerate(starts):
            block = slice(start, start + width)
            target[:, index] = part[:, block] @ weights[block]
    return sums


def _multiply(a: Matrix, right: Matrix) -> Matrix:
    """A times `right`, in the precision of `right`.

    Transposed, as BLAS is quicker with few rows than with few columns.
    """
    rows, depth = a.shape
    product = np.empty((right.shape[1], rows), right.dtype)
    turned = np.ascontiguousarray(right.T)
    step = max(1, _BLOCK_BYTES // (right.itemsize * depth))
    for first in range(0, rows, step):
        part = slice(first, first + step)
        product[:, part] = turned @ _convert(a[part], right.dtype).T
    return product.T


def _convert(part: Matrix, dtype: np.dtype[Any]) -> Matrix:
    """Some rows in another precision, as BLAS can read them."""
    converted = part.astype(dtype, copy=False)
    return converted if dtype.itemsize in converted.strides else np.ascontiguousarray(converted)
