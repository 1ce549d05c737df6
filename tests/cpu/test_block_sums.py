"""Sums of rows over blocks of columns, by the C library and by NumPy, in every layout."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.matrices import make_matrix
from wavetrim.cpu.block_sums import BlockSums
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool

LAYOUTS = ("rows", "columns", "gaps")


@pytest.fixture(scope="module", params=[("c", 1), ("c", 3), ("numpy", 1)], ids=str)
def sums(request: pytest.FixtureRequest, kernel_cache: Path) -> Iterator[BlockSums]:
    way, threads = request.param
    library = load_library(CPU_LIBRARY, kernel_cache) if way == "c" else None
    assert (library is not None) == (way == "c"), "there is no C compiler"
    pool = ThreadPool(library, threads - 1) if library is not None else None
    yield BlockSums(pool, kernel_cache if way == "c" else None)
    if pool is not None:
        pool.close()


def lay_out(rows: int, columns: int, dtype: str, layout: str) -> np.ndarray:
    order = "F" if layout == "columns" else "C"
    gaps = columns + 3 if layout == "gaps" else None
    return make_matrix(rows, columns, dtype, seed=1, order=order, leading_dimension=gaps)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("columns", "width"), [(1, 1), (7, 1), (64, 8), (301, 32), (1000, 128)])
def test_each_block_is_the_weighted_sum_of_its_columns(
    sums: BlockSums, dtype: str, layout: str, columns: int, width: int
) -> None:
    matrix = lay_out(5, columns, dtype, layout)
    work = "float64" if dtype == "float64" else "float32"
    weights = make_matrix(1, columns, work, seed=2)[0].copy()
    for form in (np.asarray, np.abs):
        found = sums.sum(matrix, weights, width, magnitudes=form is np.abs)
        terms = form(matrix.astype(np.float64)) * weights
        expected = np.add.reduceat(terms, np.arange(0, columns, width), axis=1)
        assert found.dtype == work
        assert np.allclose(found, expected, rtol=0, atol=width * np.finfo(work).eps)


def test_threads_share_the_rows_of_a_large_matrix(sums: BlockSums) -> None:
    matrix = make_matrix(3001, 1500, "float32", seed=1)
    found = sums.sum(matrix, np.ones(1500, "float32"), 100)
    expected = matrix.reshape(3001, 15, 100).sum(axis=2, dtype="float64")
    assert np.allclose(found, expected, rtol=0, atol=100 * np.finfo("float32").eps)
    assert np.array_equal(sums.find_maxima(matrix), np.abs(matrix).max(axis=0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_maxima_are_the_largest_magnitudes_and_no_nans(
    sums: BlockSums, dtype: str, layout: str
) -> None:
    matrix = lay_out(6, 37, dtype, layout)
    matrix[2, 3], matrix[1, 30], matrix[4, 36] = np.nan, -np.inf, -99
    found = sums.find_maxima(matrix)
    assert np.array_equal(found, np.nanmax(np.abs(matrix.astype(np.float64)), axis=0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_is_widened_exactly(sums: BlockSums, layout: str, dtype: str) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype).reshape(64, 1024)
    matrix = lay_out(64, 1024, dtype, layout)
    matrix[...] = every
    wide = np.empty(matrix.shape, np.float32)
    sums.copy(matrix, wide)
    assert np.array_equal(wide, every.astype(np.float32), equal_nan=True)
