"""The CPU pool computes C ← αA·B + βC for every type, shape and stride, as NumPy and BLAS would.

Without a compiler or a BLAS that can be called, products run in Python, and NumPy widens.
"""

import logging
import tracemalloc

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matrices import FLOATS, assert_product, draw_array
from wavetrim.cpu import blocks
from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.blocks import cut_depth
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.halves import widen_halves
from wavetrim.cpu.prepared import prepare
from wavetrim.native.element_types import find_limits

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
RAGGED = [(1, 1, 1), (1, 517, 129), (517, 1, 129), (31, 33, 1), (127, 129, 131), (300, 511, 257)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", RAGGED)
def test_floats_agree_with_float64(pool, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = draw_array(rng, (m, k), dtype), draw_array(rng, (k, n), dtype)
    c = np.full((m, n), np.nan, dtype)
    pool.multiply(a, b, c)
    assert_product(c, a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 17, 1030), (70, 40, 33)])
def test_integers_wrap_as_numpy_does(pool, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(2)
    a, b, c = (
        draw_array(rng, (m, k), dtype),
        draw_array(rng, (k, n), dtype),
        draw_array(rng, (m, n), dtype),
    )
    before = c.copy()
    pool.multiply(a, b, c)
    assert np.array_equal(c, a @ b)
    assert c.dtype == (a @ b).dtype
    factors = (-3, 2) if dtype.startswith("int") else (3, 2)
    c = before.copy()
    pool.multiply(a, b, c, alpha=factors[0], beta=factors[1])
    wide = factors[0] * (a.astype(object) @ b.astype(object)) + factors[1] * before.astype(object)
    bits = 8 * np.dtype(dtype).itemsize
    assert np.array_equal(c.astype(object) % 2**bits, wide % 2**bits)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    "shape", [(1003, 1100, 8), (2000, 2101, 2), (64, 20_021, 7), (20_021, 64, 7)]
)
def test_a_c_that_is_written_past_the_caches_is_right_and_so_is_what_lies_around_it(
    pool, shape, dtype, monkeypatch
):
    monkeypatch.setattr(blocks, "STREAMED_BYTES", 0)
    m, n, k = shape
    assert blocks.is_streamed(m, n, k, np.dtype(dtype).itemsize)
    rng = np.random.default_rng(5)
    a, b = draw_array(rng, (m, k), dtype), draw_array(rng, (k, n), dtype)
    prepare.cache_clear()
    for offset, gap, alpha in ((0, 0, 1.0), (1, 8, -2.0), (5, 8, -2.0)):
        around = np.full((m + gap, n + gap), 7, dtype)
        c = around[offset : offset + m, offset : offset + n]
        c[...] = np.nan
        pool.multiply(a, b, c, alpha=alpha)
        assert_product(c, a, b, alpha=alpha)
        c[...] = 7
        assert np.all(around == 7)
    prepare.cache_clear()


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_the_largest_short_integers_stay_exact_over_a_long_k(pool, dtype):
    limits = np.iinfo(dtype)
    a = np.full((3, 70_001), limits.min or limits.max, dtype)
    b = np.full((70_001, 5), limits.min or limits.max, dtype)
    c = np.zeros((3, 5), dtype)
    pool.multiply(a, b, c)
    assert int(c[0, 0]) % 65536 == int(a[0, 0]) * int(b[0, 0]) * 70_001 % 65536


def arrange(matrix, layout):
    """A view with the values of a matrix in a layout, and all of its memory, 7 elsewhere."""
    if "columns" in layout:
        view, whole = arrange(matrix.T, layout.replace("columns", "rows"))
        return view.T, whole
    rows, columns = matrix.shape
    step_down, step_right = (2, 3) if layout == "skipping" else (1, 1)
    padding = 7 if "padded" in layout else 0
    whole = np.full((step_down * rows, step_right * columns + padding), 7, matrix.dtype)
    view = whole[::step_down, : step_right * columns : step_right]
    view = view[::-1, ::-1] if layout == "backwards" else view
    view[...] = matrix
    return view, whole


LAYOUTS = ("rows", "columns", "padded rows", "padded columns", "skipping", "backwards")
SIZES = st.integers(0, 3) | st.integers(1, 300)


@settings(max_examples=120)
@given(
    shape=st.tuples(SIZES, SIZES, SIZES | st.integers(1, 4000)),
    dtype=st.sampled_from([*FLOATS, "int8", "int32", "int64"]),
    factors=st.tuples(st.sampled_from([0, 1, -2]), st.sampled_from([0, 1, 2])),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 3),
    threads=st.integers(1, 4),
    reports=st.booleans(),
)
def test_every_layout_and_factor_gives_the_same_product(
    open_pool, shape, dtype, factors, layouts, threads, reports
):
    """Also what is reported adds up to all rows, and nothing around C is written."""
    (m, n, k), (alpha, beta) = shape, factors
    rng = np.random.default_rng(1)
    a, b, before = (rng.integers(-1, 2, shape) for shape in ((m, k), (k, n), (m, n)))
    (left, _), (right, _), (c, whole) = (
        arrange(matrix.astype(dtype), layout)
        for matrix, layout in zip((a, b, before), layouts, strict=True)
    )
    told = []
    progress = told.append if reports else None
    with open_pool(4) as pool:
        pool.multiply(left, right, c, alpha=alpha, beta=beta, threads=threads, progress=progress)
    assert np.array_equal(c, (alpha * (a @ b) + beta * before).astype(dtype))
    assert not reports or sum(told) == pytest.approx(m if n else 0)
    c[...] = 7
    assert np.all(whole == 7)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_parts_of_k_overflow_without_a_warning(pool, dtype):
    k = 100_000  # the threads share K, as C is small
    a, b = np.ones((2, k), dtype), np.ones((k, 3), dtype)
    a[0, 0], a[0, -1] = np.inf, -np.inf
    a[1] = 1.5 / k * float(find_limits(np.dtype(dtype)).max)  # only the sum of all is too large
    c = np.zeros((2, 3), dtype)
    pool.multiply(a, b, c)
    assert np.all(np.isnan(c[0]))
    assert np.all(np.isposinf(c[1].real))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_last_part_of_k_may_have_length_one(open_pool, order, dtype):
    """Of this K, parts that are converted at a time leave one row of B, whatever the blocks are."""
    rng = np.random.default_rng(5)
    with open_pool(1) as pool:
        for k in (*range(1, 20), 33, 65, 129):
            a = np.array(rng.integers(-2, 3, (4, k)).astype(dtype), order=order)
            b = np.array(rng.integers(-2, 3, (k, 8192)).astype(dtype), order=order)
            c = np.full((4, 8192), np.nan, dtype)
            pool.multiply(a, b, c)
            expected = a.astype(np.float32) @ b.astype(np.float32)
            assert np.array_equal(c, expected.astype(dtype)), k


SIDES = st.integers(1, 700)


@given(m=SIDES, n=SIDES, k=st.integers(1, 10**6), threads=st.integers(1, 64))
def test_k_is_cut_only_where_c_is_small_and_is_covered_once(m, n, k, threads):
    parts = cut_depth(m, n, k, threads=threads)
    if not parts:
        return
    assert 2 <= len(parts) <= threads
    assert len(parts) * m * n * 2 <= (m + n) * k
    assert all((part.rows, part.columns) == (slice(0, m), slice(0, n)) for part in parts)
    assert [part.depth_start for part in parts] == [0, *(part.depth_stop for part in parts[:-1])]
    assert parts[-1].depth_stop == k


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("order", "factors"), [("C", (1, 0)), ("F", (-2.5, 0.75))])
def test_threads_share_the_sum_of_many_parts(open_pool, dtype, order, factors):
    (m, n, k), (alpha, beta), rng = (23, 1447, 3820), factors, np.random.default_rng(8)
    assert len(cut_depth(m, n, k, threads=16)) == 16
    a, b = draw_array(rng, (m, k), dtype), draw_array(rng, (k, n), dtype)
    old = draw_array(rng, (m, n), dtype)
    with open_pool(16) as pool:
        results = [np.array(old, order=order) for _ in range(2)]
        for c in results:
            pool.multiply(a, b, c, alpha=alpha, beta=beta)
    assert_product(results[0], a, b, old, alpha=alpha, beta=beta)
    assert np.array_equal(*results)  # whichever thread was first


@pytest.mark.parametrize(
    ("dtype", "alpha", "beta"),
    [("float32", 1, 0), ("float32", 2, 0), ("float64", 1, 1), ("float16", 1, 0), ("int8", 1, 1)],
)
def test_a_product_needs_no_temporary_as_large_as_c(open_pool, dtype, alpha, beta):
    rng = np.random.default_rng(5)
    size = {"float16": 4096, "int8": 8192}.get(dtype, 4096)
    a, b = draw_array(rng, (size, 16), dtype), draw_array(rng, (16, size), dtype)
    c = np.zeros((size, size), dtype)
    with open_pool(2) as pool:
        pool.multiply(a, b, c, alpha=alpha, beta=beta)
        tracemalloc.start()
        pool.multiply(a, b, c, alpha=alpha, beta=beta)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak_bytes < c.nbytes / 2


def test_an_error_in_a_worker_reaches_the_caller(pool):
    # The subclass fails as a block may in a worker, on a failing disk for instance.
    class Unreadable(np.ndarray):
        def __array_ufunc__(self, *inputs, **options):
            raise OSError("this block cannot be read")

    a, b, c = (np.ones(shape, "int64") for shape in ((512, 64), (64, 512), (512, 512)))
    with pytest.raises(OSError, match="cannot be read"):
        pool.multiply(a.view(Unreadable), b, c)


def test_without_a_compiler_products_run_in_python(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    with caplog.at_level(logging.WARNING), CpuPool(2, cache_dir=tmp_path / "empty") as pool:
        if pool.prepare():  # next to its source is a library compiled before
            pytest.skip("the library is compiled next to its source")
        c = np.zeros((300, 300))
        pool.multiply(np.ones((300, 40)), np.ones((40, 300)), c)
    assert np.all(c == 40)
    assert caplog.text.count("products on the CPU run in Python threads") == 1


@pytest.mark.parametrize(
    "change",
    [{"internal_api": "mkl"}, {"threading_layer": "openmp"}, {"filepath": "/no/such/library.so"}],
)
def test_a_blas_that_cannot_be_called_is_logged(change, monkeypatch, caplog):
    entries = [entry | change for entry in threadpoolctl.threadpool_info()]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: entries)
    with caplog.at_level(logging.WARNING):
        assert find_blas.__wrapped__() is None
    assert "no OpenBLAS that can be called" in caplog.text


@pytest.mark.parametrize("is_compiled", [True, False], ids=["c", "numpy"])
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "one row"])
def test_half_precision_is_widened_exactly(kernel_cache, layout, *, is_compiled):
    every = np.arange(2 * 2**16 + 3, dtype=np.uint32).astype(np.uint16).view(np.float16)
    halves = every[None] if layout == "one row" else every[: 2**17].reshape(128, 1024)
    if layout == "columns":
        halves = np.asfortranarray(halves)
    if layout == "gaps":
        halves = np.hstack([halves, halves])[:, :1021]
    wide = widen_halves(halves, kernel_cache if is_compiled else None)
    assert wide.dtype == np.float32
    assert np.array_equal(wide, halves.astype(np.float32), equal_nan=True)
