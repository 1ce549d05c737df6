"""Checksums of a product's rows over blocks of columns, and those of its factors.

For a row i, a block J of w columns and random weights s of either sign (R. Freivalds, Probabilistic
machines can use less running time, 1977), scaled by powers of two d that make B's columns of about
one size:

    r_iJ = Σ_j s_j d_j (C_ij - α (A B)_ij - β C₀_ij) = (C S)_iJ - α (A (B S))_iJ - β (C₀ S)_iJ

A single wrong element shows. Rounding errors of w right elements grow as √w, so in narrow blocks a
change of a few times the error of one element shows. Two equal changes may cancel if they are in
one block. The weights are ±1, ±1.25, ±1.5 or ±1.75, so those of two columns are opposite with
probability 1/8: equal changes cancel with probability w / 8N, not w / 2N as with ±1.

The cost is that of N/w columns of the product and of reading B and C once. The width is the power
of two at or below N^1.5 / 2048, from 1 to 128: the check costs 1/128 of the product from N = 4096
on. Below N = 257 each element has a checksum of its own; such products take little time.

Sums have the product's own precision, so their rounding errors are about those of its elements.
They are estimated from the r_iJ themselves: the usual error is their median, as a multiple of the
row's size.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.block_sums import BlockSums
from wavetrim.scheduler.check.real_parts import count_real_columns, find_right_maxima, sum_right

Matrix = NDArray[Any]


class Workers(Protocol):
    """Threads that sum and multiply matrices: a `CpuPool`, or the calling thread."""

    @property
    def block_sums(self) -> BlockSums:
        """Sums rows."""

    def multiply(self, a: Matrix, b: Matrix, c: Matrix) -> object:
        """C ← A·B."""


class Alone:
    """The calling thread alone."""

    @cached_property
    def block_sums(self) -> BlockSums:
        """Sums rows."""
        return BlockSums()

    def multiply(self, a: Matrix, b: Matrix, c: Matrix) -> None:
        """C ← A·B."""
        np.matmul(a, b, out=c)


ALONE: Final = Alone()

_WIDEST: Final = 128
"""Most columns of a block: the check then has 1/128 of the product's operations."""

WEIGHTS: Final = (-1.75, -1.5, -1.25, -1.0, 1.0, 1.25, 1.5, 1.75)
"""Weights of columns, exact in every type."""

_PART_BYTES: Final = 16 * 2**20
"""Part of A that is converted at a time; chosen."""


@dataclass(frozen=True, slots=True)
class FactorSums:
    """The checksums of a right product.

    Attributes:
        depth: K, the terms of an element.
        width: Columns of a block.
        weights: Weight of each column, scale included.
        scales: Powers of two that bring B's columns to about the same size.
        product: α A (B S), rows x blocks.
        added: β C₀ S, likewise; None if C is not read.
        sizes: Size of each row of these, as a column.
    """

    depth: int
    width: int
    weights: Matrix
    scales: Matrix
    product: Matrix
    added: Matrix | None
    sizes: Matrix


def find_caught(width: int, columns: int) -> float:
    """The probability that two equal changes, anywhere in a row, do not cancel."""
    return 1 - (width - 1) / (len(WEIGHTS) * max(1, columns - 1))


def choose_width(columns: int) -> int:
    """Columns of a block, which has one checksum in each row."""
    return min(_WIDEST, 1 << max(0, int(np.log2(columns**1.5 / 2048))))


def sum_factors(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    *,
    alpha: float,
    beta: float,
    dtype: np.dtype[Any],
    random: np.random.Generator,
    workers: Workers = ALONE,
) -> FactorSums:
    """The checksums of a right product, from its factors alone.

    Args:
        a: M x K floats; of a complex product the real numbers (`real_parts`).
        b: K x N; complex as it is.
        c: M x N, as A is: C before the product; None if it is not read.
        alpha: Factor of the product.
        beta: Factor of C.
        dtype: Element type of the product, or of the parts of a complex one.
        random: Draws the weights.
        workers: Sum the rows.
    """
    work = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    columns = count_real_columns(b)
    width = max(choose_width(columns), 2 if b.dtype.kind == "c" else 1)  # both parts in a block
    chosen = random.choice(np.array(WEIGHTS, work), columns)
    with np.errstate(all="ignore"):
        scales = _find_scales(b, workers.block_sums)
        weights = chosen * scales
        right = sum_right(b, weights, width, workers.block_sums)
        product = _multiply(a, right, workers) * work.type(alpha)
        added = None
        if c is not None:
            added = workers.block_sums.sum(c, weights, width) * work.type(beta)
        sizes = _measure_rows(product)
        if added is not None:
            sizes = np.maximum(sizes, _measure_rows(added))
    return FactorSums(a.shape[1], width, weights, scales, product, added, sizes)


def _measure_rows(sums: Matrix) -> Matrix:
    """The root mean square of each row, as a column; the largest magnitude if it overflows."""
    largest = np.max(np.abs(sums), axis=1, keepdims=True)
    scaled = sums / np.where(largest > 0, largest, 1)
    sizes: Matrix = largest * np.sqrt(np.mean(scaled * scaled, axis=1, keepdims=True))
    return sizes


def _find_scales(b: Matrix, sums: BlockSums) -> Matrix:
    """Powers of two near the inverse of each column's largest element."""
    maxima = find_right_maxima(b, sums)
    _, exponents = np.frexp(maxima)
    most = np.finfo(maxima.dtype).maxexp // 2
    scales: Matrix = np.ldexp(maxima.dtype.type(1), -np.clip(exponents, -most, most))
    return scales.astype(maxima.dtype)


def sum_magnitudes(
    factors: FactorSums,
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    *,
    alpha: float,
    beta: float,
    workers: Workers,
) -> Matrix:
    """|α||A||B S| + |β||C₀ S|, to which rounding errors of checksums are proportional."""
    work, weights, width = factors.product.dtype, np.abs(factors.weights), factors.width
    sums = workers.block_sums
    right = sum_right(b, weights, width, sums, magnitudes=True)
    terms: Matrix = _multiply(a, right, workers, magnitudes=True) * abs(work.type(alpha))
    if c is not None:
        terms += sums.sum(c, weights, width, magnitudes=True) * abs(work.type(beta))
    return terms


def _multiply(a: Matrix, right: Matrix, workers: Workers, *, magnitudes: bool = False) -> Matrix:
    """A, or the magnitudes of its elements, times `right`, in the precision of `right`."""
    rows, depth = a.shape
    product = np.empty((rows, right.shape[1]), right.dtype)
    if a.dtype == right.dtype and not magnitudes:
        workers.multiply(a, right, product)
        return product
    # One buffer for all parts: writing new memory takes longer than the sums.
    step = min(rows, max(1, _PART_BYTES // (right.itemsize * depth)))
    copied = np.empty((step, depth), right.dtype)
    for first in range(0, rows, step):
        part = a[first : first + step]
        left = copied[: part.shape[0]]
        workers.block_sums.copy(part, left)
        if magnitudes:
            np.abs(left, out=left)
        workers.multiply(left, right, product[first : first + step])
    return product
