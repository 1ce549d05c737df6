"""Checksums of the rows of a product of integers, which must agree exactly.

C·S is compared with α A(B S) + β C₀ S modulo 2 to the power of the type's bits. The first column of
S holds ±1, so a single wrong element always shows. The other columns are random: each misses any
changes of a row with a probability of at most 1/2 (R. Freivalds, Probabilistic machines can use
less running time, 1977).
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

VECTORS: Final = 9
"""Columns of S: the first, and eight random ones, which together miss 1 of 256 changes."""

_BLOCK_BYTES: Final = 32 * 2**20
"""Memory for the rows that are converted at a time; chosen."""

_DEEPEST_SHORT: Final = 1 << 20
"""Longest row of 16-bit integers whose sum of products is exact in float64."""


def find_wrong_rows(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    alpha: int,
    beta: int,
    random: np.random.Generator,
) -> tuple[int, ...]:
    """The rows of `out` that are not those of αA·B + βC.

    Args:
        a: M x K integers.
        b: K x N, likewise.
        c: M x N, likewise: C before the product; None if it is not read.
        out: M x N, the product.
        alpha: Factor of the product.
        beta: Factor of C.
        random: Draws the vectors.
    """
    word = np.dtype(f"u{out.dtype.itemsize}")
    vectors = random.integers(0, np.iinfo(word).max, (out.shape[1], VECTORS), word, endpoint=True)
    vectors[:, 0] = random.choice(np.array((1, np.iinfo(word).max), word), out.shape[1])
    differences = _multiply(out, vectors)
    if alpha != 0:
        product = _multiply(a, _multiply(b, vectors))
        differences -= _wrap(alpha, word) * product
    if c is not None and beta != 0:
        differences -= _wrap(beta, word) * _multiply(c, vectors)
    return tuple(np.flatnonzero(differences.any(axis=1)).tolist())


def _wrap(factor: int, word: np.dtype[Any]) -> Any:
    return np.uint64(int(factor) % 2**64).astype(word)


def _multiply(matrix: Matrix, vectors: Matrix) -> Matrix:
    """`matrix` times `vectors` modulo the word's size."""
    word = vectors.dtype
    rows, columns = matrix.shape
    product = np.empty((rows, vectors.shape[1]), word)
    # Below 2^53 BLAS is exact in float64: 2^16 · 2^16 · 2^20 = 2^52.
    exact = word.itemsize <= 2 and columns <= _DEEPEST_SHORT
    right = vectors.astype(np.float64) if exact else np.asfortranarray(vectors)
    step = max(1, _BLOCK_BYTES // (8 * columns))
    for first in range(0, rows, step):
        part = slice(first, first + step)
        block = matrix[part].astype(right.dtype)
        result = block @ right
        product[part] = result.astype(np.int64).astype(word) if exact else result
    return product
