"""A C that no cache holds is written past the caches, and is the same product."""

import numpy as np
import pytest

from tests.matrices import assert_product, draw_array
from wavetrim.cpu import native_team
from wavetrim.cpu.gemm import CpuPool

TYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = [
    (1000, 1003, 1),  # K = 1, and rows that begin in the middle of a line of the caches
    (2000, 2048, 7),
    (31, 50_021, 5),  # few long rows
    (50_021, 31, 5),  # many short rows
    (1025, 769, 8),
]
CACHE_BYTES = 1 << 16


@pytest.fixture(scope="module")
def small_cache_pool(kernel_cache):
    """A pool in C that takes the largest cache for smaller than any C here."""
    with pytest.MonkeyPatch.context() as patch, CpuPool(3, cache_dir=kernel_cache) as pool:
        patch.setattr(native_team, "find_largest_cache_bytes", lambda: CACHE_BYTES)
        assert pool.prepare(), "there is no C compiler, or NumPy has no OpenBLAS"
        yield pool


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_streamed_c_is_the_product(small_cache_pool, shape, dtype, *, by_rows):
    m, n, k = shape
    rng = np.random.default_rng(5)
    a, b = draw_array(rng, (m, k), dtype), draw_array(rng, (k, n), dtype)
    c = np.full((m, n), np.nan, dtype, order="C" if by_rows else "F")
    small_cache_pool.multiply(a, b, c)
    assert_product(c, a, b)


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_nothing_around_a_streamed_c_is_written(small_cache_pool, offset, *, by_rows):
    rng = np.random.default_rng(6)
    a, b = draw_array(rng, (600, 9), "float32"), draw_array(rng, (9, 1100), "float32")
    around = np.full((608, 1108), 7, np.float32)
    place = around if by_rows else np.full((1108, 608), 7, np.float32).T
    rows, columns = slice(offset, offset + 600), slice(offset, offset + 1100)
    small_cache_pool.multiply(a, b, place[rows, columns], alpha=-2.0)
    assert_product(place[rows, columns], a, b, alpha=-2.0)
    place[rows, columns] = 7
    assert np.all(place == 7)
