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
    (31, 20_021, 5),  # few long rows
    (20_021, 31, 5),  # many short rows
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
def test_a_streamed_c_is_the_product_and_nothing_around_it_is_written(
    small_cache_pool, shape, dtype, *, by_rows
):
    m, n, k = shape
    rng = np.random.default_rng(5)
    a, b = draw_array(rng, (m, k), dtype), draw_array(rng, (k, n), dtype)
    for offset, gap, alpha in ((0, 0, 1.0), (1, 8, -2.0), (5, 8, -2.0)):
        around = np.full((m + gap, n + gap), 7, dtype, order="C" if by_rows else "F")
        c = around[offset : offset + m, offset : offset + n]
        c[...] = np.nan
        small_cache_pool.multiply(a, b, c, alpha=alpha)
        assert_product(c, a, b, alpha=alpha)
        c[...] = 7
        assert np.all(around == 7)
