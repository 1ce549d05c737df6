"""Matrices for tests: generators, float64 references, and tolerances that grow with K."""

from typing import Any

import numpy as np
import numpy.typing as npt

from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.native.element_types import find_limits, is_integer

Array = npt.NDArray[Any]

FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""Element types whose products are rounded."""

STORED_ROUNDOFF = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
"""Relative error of rounding a result, or each of its two parts, to its element type."""

SUMMED_ROUNDOFF = {**STORED_ROUNDOFF, "float16": 2.0**-24, "bfloat16": 2.0**-24}
"""Relative error of one addition while the products are summed: halves are summed in float32."""

SLOW = 900
"""Side of a square int64 product that takes a second: 64-bit integers have no fast product."""


def make_matrix(rows, columns, dtype, seed, *, leading_dimension=None, order="C"):
    """A matrix of random elements, inside a larger buffer when a leading dimension is given.

    Floating-point elements are uniform in -1…1, as are both parts of complex ones, integers in
    -8…7 (unsigned: 0…7). The padding between rows (between columns for order "F") is poisoned, as
    `make_output` does.
    """
    matrix = make_output(rows, columns, dtype, leading_dimension=leading_dimension, order=order)
    generator = np.random.default_rng(seed)
    if not is_integer(matrix.dtype):
        matrix[...] = generator.uniform(-1, 1, (rows, columns))
        if matrix.dtype.kind == "c":
            matrix.imag = generator.uniform(-1, 1, (rows, columns))
    else:
        low = 0 if matrix.dtype.kind == "u" else -8
        matrix[...] = generator.integers(low, 8, (rows, columns))
    return matrix


def make_output(rows, columns, dtype, *, leading_dimension=None, order="C"):
    """A poisoned matrix, padding included."""
    outer, inner = (rows, columns) if order == "C" else (columns, rows)
    buffer = poison(np.empty((outer, leading_dimension or inner), dtype))
    return buffer[:, :inner] if order == "C" else buffer[:, :inner].T


def draw_whole(rows, columns, seed, dtype="float32"):
    """A matrix of whole numbers in -3…3: its products are exact in every order of their sums."""
    return np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(dtype)


def draw_operands(m, n, k, *, seed=1, dtype="float32"):
    """Whole A[M, K], B[K, N] and C[M, N]."""
    shapes = (m, k), (k, n), (m, n)
    return [draw_whole(*shape, seed + place, dtype) for place, shape in enumerate(shapes)]


def draw_array(generator, shape, dtype):
    """An array of any integers of the type; of floats, and parts of complex numbers, in -1…1."""
    if is_integer(np.dtype(dtype)):
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    real, imaginary = generator.uniform(-1, 1, (2, *shape))
    return np.asarray(real + 1j * imaginary if np.dtype(dtype).kind == "c" else real).astype(dtype)


def pin_copy(matrix):
    """A copy in page-locked memory."""
    pinned = pin_matrix(*matrix.shape, matrix.dtype)
    pinned[...] = matrix
    return pinned


def poison(array):
    """Fill an array with NaN, or the largest integer, which no product contains; returns it."""
    array[...] = np.iinfo(array.dtype).max if is_integer(array.dtype) else np.nan
    return array


def draw_pinned(m, n, k):
    """Whole A[M, K] and B[K, N], and a poisoned C[M, N], in page-locked memory."""
    a, b, c = map(pin_copy, draw_operands(m, n, k))
    return a, b, poison(c)


def is_poison(array):
    """Which elements are still poison."""
    if is_integer(array.dtype):
        return array == np.iinfo(array.dtype).max
    return np.isnan(array)


def padding_of(matrix):
    """The elements between the rows (columns) of a matrix made with a leading dimension."""
    buffer = matrix.base if matrix.base is not None else matrix
    inner = matrix.shape[0] if matrix.strides[0] < matrix.strides[1] else matrix.shape[1]
    return buffer[:, inner:]


def reference_product(a, b, c=None, *, alpha=1.0, beta=0.0):
    """α A B + β C in float64 or complex128; for integers in 64 bits, modulo 2^64.

    C is not read when β is 0.
    """
    if not is_integer(a.dtype):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
    else:
        wide = np.uint64 if a.dtype.kind == "u" else np.int64
        alpha, beta = int(alpha), int(beta)
    product = alpha * (a.astype(wide) @ b.astype(wide))
    if c is not None and beta != 0:
        product += beta * c.astype(wide)
    return product


def tolerance(dtype, k):
    """Error allowed in an element of C, relative to (|α| |A| |B| + |β| |C|).

    Each of K additions rounds once. Their errors are of either sign, so they grow as √K rather
    than as K (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019);
    the factor 4 makes a false alarm unlikely in millions of elements. α, β and the last addition
    round a few times more. The float64 reference of float64 matrices errs as much again. Zero for
    integers. Each part of a complex element is a sum of 2 K products.
    """
    name = np.dtype(dtype).name
    if name not in STORED_ROUNDOFF:
        return 0.0
    summing = 4 * np.sqrt(k) * SUMMED_ROUNDOFF[name]
    if name in ("float64", "complex128"):
        summing *= 2
    if name.startswith("complex"):
        summing *= 2
    return float(summing + 4 * STORED_ROUNDOFF[name])


def assert_product(actual, a, b, c=None, *, alpha=1.0, beta=0.0):
    """Assert that `actual` is α A B + β C, every element of it within the tolerance.

    `c` is C as it was before. Returns the largest error relative to (|α| |A| |B| + |β| |C|).
    """
    expected = reference_product(a, b, c, alpha=alpha, beta=beta)
    assert actual.shape == expected.shape
    if is_integer(a.dtype):
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
        return 0.0
    scale = reference_product(
        np.abs(a), np.abs(b), None if c is None else np.abs(c), alpha=abs(alpha), beta=abs(beta)
    )
    limit = tolerance(a.dtype, a.shape[1])
    smallest = float(find_limits(actual.dtype).tiny)
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.astype(expected.dtype) - expected) / np.maximum(scale, smallest)
    wrong = ~(error <= limit)  # NaN is wrong too
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} elements are off by more than {limit:.3g}; the first, "
            f"C[{row}, {column}], is {actual[row, column]!r} instead of {expected[row, column]!r}"
        )
    return float(error.max())
