"""Checksums of a product's rows over blocks of columns, and which of them rounding cannot explain.

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

Sums have the product's own precision, so their rounding errors are about those of its elements, and
the usual r_iJ says how large they are. Complex elements have complex sums with real weights.

Those of integers must agree exactly: C·S is compared with α A(B S) + β C₀ S modulo 2 to the power
of the type's bits. The first column of S holds ±1, so a single wrong element always shows. The
other columns are random: each misses any changes of a row with a probability of at most 1/2.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.halves import widen_halves
from wavetrim.native.element_types import find_accumulator
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.product import EngineProduct

WEIGHTS: Final = (-1.75, -1.5, -1.25, -1.0, 1.0, 1.25, 1.5, 1.75)
"""Weights of columns, exact in every element type."""

_WIDEST: Final = 128
"""Most columns of a block: the check then has 1/128 of the product's operations."""

_PART_BYTES: Final = 2**20
"""Rows that a thread reads at a time; they and their copies stay in a core's cache."""

_LIMIT: Final = 7.5
"""Largest right checksum, over the mean of its row: six standard deviations of a normal variable,
which one of 10^9 exceeds."""

_MOST_UNLIKE: Final = 4.0
"""How much larger than in other rows right checksums may be: a GPU that sums some panels in parts
of K rounds them more often. 2.2 was seen on an H200 (float64, 8192)."""

_NEAR: Final = 16
"""Distance to the rows whose rounding errors limit those of a row: a row that is wrong everywhere
must not raise its own limit."""

_CHEAP: Final = 1 << 18
"""Most elements of B for a block that is compared even if it is not suspect: about a
millisecond."""

_MOST: Final = 256
"""Most suspects that are compared; chosen on `benchmarks.verify`. Of more, those with the largest
differences: elements of a row then differ much in size, and the row's mean says little."""

VECTORS: Final = 9
"""Columns of S: the first, and eight random ones, which together miss 1 of 256 changes."""

_DEEPEST_SHORT: Final = 1 << 20
"""Longest row of 16-bit integers whose sum of products is exact in float64."""


class Checksums:
    """The checksums of a right product, from its factors alone, with new random weights.

    The product is of floats or complex numbers; its `c` is None if that is not read.

    Attributes:
        width: Columns of a block.
    """

    def __init__(
        self, product: EngineProduct, random: np.random.Generator, pool: CpuPool | None
    ) -> None:
        self._product, self._pool = product, pool
        columns, kind = product.b.shape[1], product.sum_type
        self._reals = columns * (2 if kind.kind == "c" else 1)
        self.width = min(_WIDEST, 1 << max(0, int(np.log2(self._reals**1.5 / 2048))))
        with np.errstate(all="ignore"):
            weights = random.choice(WEIGHTS, columns) * self._find_scales()
            self._weights = weights.astype(kind)
            self._expected = self._multiply(product.a, self._sum_blocks(product.b))
            self._expected *= kind.type(product.alpha)
            self._sizes = _measure_rows(self._expected)
            if product.c is not None:
                added = self._sum_blocks(product.c) * kind.type(product.beta)
                self._expected += added
                self._sizes += _measure_rows(added)

    def find_suspects(self) -> tuple[NDArray[np.bool_], float]:
        """Compare the checksums of the computed product with these.

        Suspect is what exceeds its limit or is not finite. The largest is, too, if comparing it is
        cheap, or if √K roundings do not explain all: then all rows may be wrong alike.

        Returns:
            Which blocks are suspect, rows x blocks; and the largest checksum of the others, or the
            limit if none exceeds it, as a multiple of its row's mean magnitude.
        """
        with np.errstate(all="ignore"):
            differences = self._sum_blocks(self._product.out) - self._expected
            real = self._sizes.dtype
            changes = np.abs(differences.view(real))  # both parts of a complex sum
            ratios = changes / self._sizes
            ratios[changes == 0] = 0  # also in rows of zeros
            wrong = ~np.isfinite(ratios)
            means = np.where(wrong, 0, ratios).mean(axis=1, keepdims=True)
            usual, eps = np.median(means), float(np.finfo(real).eps)
            means = np.minimum.reduce([np.roll(means, by, axis=0) for by in (-_NEAR, 0, _NEAR)])
            limits = _LIMIT * np.maximum(np.clip(means, usual, _MOST_UNLIKE * usual), eps / 2)
            ratios /= limits
            count, limit = int(np.count_nonzero(ratios > 1)), float(limits.max())
            depth = len(self._product.b)
            explained = _LIMIT * float(np.sqrt(depth)) * eps
            if count or depth * self.width <= _CHEAP or limit > explained:
                most = min(max(count, 1), _MOST, ratios.size)
                ranked = np.where(wrong, -1, ratios if count <= _MOST else changes)
                wrong.ravel()[np.argpartition(ranked, -most, axis=None)[-most:]] = True
            limit *= float(np.max(ratios, where=~wrong, initial=1))
        if real != differences.dtype:
            wrong = wrong[:, ::2] | wrong[:, 1::2]
        return wrong, limit

    def _find_scales(self) -> Matrix:
        """Powers of two near the inverse of the largest element of each of B's columns."""
        b = self._product.b
        kind = b.real.dtype
        word = np.dtype(f"u{kind.itemsize}")  # magnitudes are in the order of their bits
        maxima: list[Matrix] = [np.zeros(self._reals, word)]

        def find_maxima(part: slice) -> None:
            bits = np.ascontiguousarray(b[part]).view(word) & word.type(np.iinfo(word).max >> 1)
            maxima.append(bits.max(axis=0))

        sweep(find_maxima, b, self._pool)
        largest = np.max(maxima, axis=0).reshape(b.shape[1], -1).max(axis=1)
        sizes = largest.view(kind).astype(find_accumulator(kind))
        _, exponents = np.frexp(np.where(np.isfinite(sizes), sizes, 1))
        most = np.finfo(sizes.dtype).maxexp // 2
        scales: Matrix = np.ldexp(1.0, -np.clip(exponents, -most, most))
        return scales

    def _sum_blocks(self, matrix: Matrix) -> Matrix:
        """Weighted sums of each row over blocks of columns; the last may have fewer columns."""
        weights, (rows, columns) = self._weights, matrix.shape
        blocks, rest = divmod(columns, self.width)
        whole = blocks * self.width
        factors = weights[:whole].reshape(blocks, -1)
        sums = np.empty((rows, blocks + (rest > 0)), weights.dtype)

        def sum_rows(part: slice) -> None:
            wide = self._widen(matrix[part])
            cut = wide[:, :whole].reshape(len(wide), *factors.shape)
            np.einsum("mbw,bw->mb", cut, factors, out=sums[part, :blocks])
            if rest:
                sums[part, -1] = wide[:, whole:] @ weights[whole:]

        sweep(sum_rows, matrix, self._pool)
        return sums

    def _multiply(self, a: Matrix, right: Matrix) -> Matrix:
        """A times `right`, in the precision of `right`."""
        product = np.empty((len(a), right.shape[1]), right.dtype)

        def multiply_rows(part: slice) -> None:
            np.matmul(self._widen(a[part]), right, out=product[part])

        sweep(multiply_rows, a, self._pool)
        return product

    def _widen(self, matrix: Matrix) -> Matrix:
        """A matrix in the type of its sums, stored by rows without gaps."""
        if matrix.dtype == np.float16:
            return widen_halves(matrix, None if self._pool is None else self._pool.cache_dir)
        return np.ascontiguousarray(matrix, self._weights.dtype)


def sweep(take: Callable[[slice], None], matrix: Matrix, pool: CpuPool | None) -> None:
    """Call `take` for all rows of a matrix, some at a time, by the pool's threads if given."""
    rows, columns = matrix.shape
    step = max(1, _PART_BYTES // max(1, columns * matrix.itemsize))
    parts = [slice(first, min(rows, first + step)) for first in range(0, rows, step)]
    if pool is not None:
        pool.call_each(take, parts)
    else:
        for part in parts:
            take(part)


def _measure_rows(sums: Matrix) -> Matrix:
    """The mean magnitude of each row, as a column; it does not overflow."""
    sizes: Matrix = np.abs(sums / sums.shape[1]).sum(axis=1, keepdims=True)
    return sizes


def find_wrong_rows(
    product: EngineProduct, random: np.random.Generator, pool: CpuPool | None
) -> tuple[int, ...]:
    """The wrong rows of a product of integers, with new random vectors; by the pool's threads."""
    out = product.out
    word = np.dtype(f"u{out.dtype.itemsize}")
    vectors = random.integers(0, np.iinfo(word).max, (out.shape[1], VECTORS), word, endpoint=True)
    vectors[:, 0] = random.choice(np.array((1, np.iinfo(word).max), word), out.shape[1])
    differences = _multiply_exactly(out, vectors, pool)
    right = _multiply_exactly(product.a, _multiply_exactly(product.b, vectors, pool), pool)
    modulus = 2 ** (8 * word.itemsize)
    differences -= word.type(int(product.alpha) % modulus) * right
    if product.c is not None:
        added = _multiply_exactly(product.c, vectors, pool)
        differences -= word.type(int(product.beta) % modulus) * added
    return tuple(np.flatnonzero(differences.any(axis=1)).tolist())


def _multiply_exactly(matrix: Matrix, vectors: Matrix, pool: CpuPool | None) -> Matrix:
    """`matrix` times `vectors` modulo the word's size."""
    word, depth = vectors.dtype, len(vectors)
    product = np.empty((len(matrix), VECTORS), word)
    # Below 2^53 BLAS is exact in float64: 2^16 · 2^16 · 2^20 = 2^52.
    exact = word.itemsize <= 2 and depth <= _DEEPEST_SHORT
    right = vectors.astype(np.float64) if exact else np.asfortranarray(vectors)

    def multiply_rows(part: slice) -> None:
        result = matrix[part].astype(right.dtype) @ right
        product[part] = result.astype(np.int64) if exact else result

    sweep(multiply_rows, matrix, pool)
    return product
