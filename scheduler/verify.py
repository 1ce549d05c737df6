"""Proves a product right without computing it again.

The product is projected on a few vectors x: C·x is compared with αA(Bx) + βC₀x, which costs
MN + MK + KN operations instead of MNK. One vector holds ±1 everywhere, so an error in any element
shows (R. Freivalds, Probabilistic machines can use less running time, 1977); the others pick
single columns of C, which are thereby compared element by element.

Floats are projected in float64 and may differ by the rounding of a product of this K:
|error| ≤ (K + 2)·eps·(|α||A||B| + |β||C₀|), element by element (N. Higham, Accuracy and Stability
of Numerical Algorithms, section 3.5). Integers must agree exactly, modulo their word size.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.errors import VerificationFailed

Matrix = NDArray[Any]

_COLUMNS = 8
_BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of the check.

    Attributes:
        passed: Whether `max_error` is within `tolerance`.
        max_error: Largest error found, in units of eps·(|α||A||B| + |β||C₀|); for integers the
            number of projected elements that differ.
        tolerance: What it may be: K + 2 for float32 and float64, 0 for integers.
        rows_checked: Rows of C that were covered.
    """

    passed: bool
    max_error: float
    tolerance: float
    rows_checked: int

    def require(self) -> None:
        """Accept no product that did not pass.

        Raises:
            VerificationFailed: It did not.
        """
        if not self.passed:
            raise VerificationFailed(
                f"max_error is {self.max_error:.6g}; it must be at most {self.tolerance:.6g} "
                f"({self.rows_checked} rows checked)"
            )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready copy."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Check:
    """A product, its factors, and the vectors it is projected on (columns of `vectors`)."""

    a: Matrix
    b: Matrix
    c: Matrix | None
    out: Matrix
    alpha: float
    beta: float
    vectors: Matrix


def verify_product(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    seed: int = 0,
) -> Verification:
    """Check that `out` is αA·B + βC.

    Args:
        a: M x K.
        b: K x N.
        c: M x N, the C before the product; None when `beta` is 0.
        out: M x N, the product to be checked.
        alpha: Factor of the product.
        beta: Factor of C.
        seed: Seed of the vectors.
    """
    check = _Check(a, b, c if beta != 0 else None, out, alpha, beta, _draw_vectors(out, seed))
    if np.issubdtype(out.dtype, np.integer):
        differing = sum(_count_differing(check, rows) for rows in _cut_rows(check))
        return Verification(differing == 0, float(differing), 0.0, out.shape[0])
    b_vectors = _project(check.b, check.vectors, np.float64)
    b_bound = _project(check.b, np.abs(check.vectors), np.float64, magnitude=True)
    worst = max(_measure_error(check, rows, b_vectors, b_bound) for rows in _cut_rows(check))
    tolerance = a.shape[1] + 2 + _storage_eps(out) / _arithmetic_eps(out)
    return Verification(worst <= tolerance, worst, tolerance, out.shape[0])


def _draw_vectors(out: Matrix, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    n = out.shape[1]
    vectors = np.zeros((n, 1 + _COLUMNS))
    vectors[:, 0] = rng.choice((-1.0, 1.0), n)
    vectors[rng.integers(0, n, _COLUMNS), np.arange(1, 1 + _COLUMNS)] = 1.0
    return vectors


def _cut_rows(check: _Check) -> Iterator[slice]:
    """Row ranges whose float64 copies stay small."""
    m, n = check.out.shape
    step = max(1, _BLOCK_BYTES // (8 * max(n, check.a.shape[1])))
    return (slice(start, start + step) for start in range(0, m, step))


def _project(matrix: Matrix, vectors: Matrix, dtype: Any, *, magnitude: bool = False) -> Matrix:
    """`matrix` (or its magnitude) times `vectors`, in row blocks, in `dtype`."""
    rows, columns = matrix.shape
    step = max(1, _BLOCK_BYTES // (8 * columns))
    right = vectors.astype(dtype)
    result = np.empty((rows, vectors.shape[1]), dtype)
    for start in range(0, rows, step):
        block = matrix[start : start + step].astype(dtype)
        result[start : start + step] = (np.abs(block) if magnitude else block) @ right
    return result


def _measure_error(check: _Check, rows: slice, b_vectors: Matrix, b_bound: Matrix) -> float:
    """Largest error among some rows, in units of the bound."""
    with np.errstate(all="ignore"):
        expected = check.alpha * _project(check.a[rows], b_vectors, np.float64)
        bound = abs(check.alpha) * _project(check.a[rows], b_bound, np.float64, magnitude=True)
        if check.c is not None:
            vectors = check.vectors
            expected += check.beta * _project(check.c[rows], vectors, np.float64)
            bound += abs(check.beta) * _project(
                check.c[rows], np.abs(vectors), np.float64, magnitude=True
            )
        found = _project(check.out[rows], check.vectors, np.float64)
        return _compare(found, expected, bound, check.out.dtype)


def _compare(found: Matrix, expected: Matrix, bound: Matrix, dtype: Any) -> float:
    """Largest error in units of the bound; infinite where only one side is finite.

    Sums that may overflow the element type are not compared: there the product is right to be
    infinite although its float64 reference is not.
    """
    info = np.finfo(dtype)
    comparable = ~(bound >= float(info.max))
    found, expected, bound = found[comparable], expected[comparable], bound[comparable]
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return float("inf")
    unit = _arithmetic_eps_of(info) * bound[finite] + float(info.smallest_subnormal)
    return float(np.max(np.abs(found[finite] - expected[finite]) / unit, initial=0.0))


def _storage_eps(out: Matrix) -> float:
    return float(np.finfo(out.dtype).eps)


def _arithmetic_eps(out: Matrix) -> float:
    return _arithmetic_eps_of(np.finfo(out.dtype))


def _arithmetic_eps_of(info: Any) -> float:
    """Rounding unit of the sums: float16 is accumulated in float32."""
    return min(float(info.eps), float(np.finfo(np.float32).eps))


def _count_differing(check: _Check, rows: slice) -> int:
    """Projected elements that differ modulo the word size."""
    word = np.uint64
    b_vectors = _project(check.b, check.vectors, np.int64).astype(word)
    expected = word(int(check.alpha) % 2**64) * (check.a[rows].astype(word) @ b_vectors)
    if check.c is not None:
        c_vectors = _project(check.c[rows], check.vectors, np.int64).astype(word)
        expected += word(int(check.beta) % 2**64) * c_vectors
    found = _project(check.out[rows], check.vectors, np.int64).astype(word)
    mask = word(2 ** (8 * check.out.dtype.itemsize) - 1)
    return int(np.count_nonzero((found - expected) & mask))
