"""Checksums of the rows of a product of integers, which must agree exactly.

C·S is compared with α A(B S) + β C₀ S modulo 2 to the power of the type's bits. The first column of
S holds ±1, so a single wrong element always shows. The other columns are random: each misses any
changes of a row with a probability of at most 1/2 (R. Freivalds, 1977).
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.gemm import CpuPool
from wavetrim.scheduler.check.checksums import sweep
from wavetrim.scheduler.product import EngineProduct

Matrix = NDArray[Any]

VECTORS: Final = 9
"""Columns of S: the first, and eight random ones, which together miss 1 of 256 changes."""

_DEEPEST_SHORT: Final = 1 << 20
"""Longest row of 16-bit integers whose sum of products is exact in float64."""


def find_wrong_rows(
    product: EngineProduct, random: np.random.Generator, pool: CpuPool | None
) -> tuple[int, ...]:
    """The wrong rows of a product of integers, with new random vectors; by the pool's threads."""
    out = product.out
    word = np.dtype(f"u{out.dtype.itemsize}")
    vectors = random.integers(0, np.iinfo(word).max, (out.shape[1], VECTORS), word, endpoint=True)
    vectors[:, 0] = random.choice(np.array((1, np.iinfo(word).max), word), out.shape[1])
    differences = _multiply(out, vectors, pool)
    right = _multiply(product.a, _multiply(product.b, vectors, pool), pool)
    modulus = 2 ** (8 * word.itemsize)
    differences -= word.type(int(product.alpha) % modulus) * right
    if product.c is not None:
        added = _multiply(product.c, vectors, pool)
        differences -= word.type(int(product.beta) % modulus) * added
    return tuple(np.flatnonzero(differences.any(axis=1)).tolist())


def _multiply(matrix: Matrix, vectors: Matrix, pool: CpuPool | None) -> Matrix:
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
