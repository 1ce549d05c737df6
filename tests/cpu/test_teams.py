"""Teams of threads in C and in Python: layouts, vectors, errors, callers and their end."""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.matrices import assert_product, make_matrix
from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.errors import CpuError, ProductCancelled
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.cpu.native_team import NativeTeam
from wavetrim.cpu.operands import find_blas_strides
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool

Matrix = NDArray[Any]
OpenPool = Callable[[int], CpuPool]


def lie(values: Matrix, layout: str) -> Matrix:
    """The same values in another layout that BLAS takes."""
    rows, columns = values.shape
    order = "F" if "columns" in layout else "C"
    pad = 5 if "padded" in layout else 0
    outer, inner = (columns, rows) if order == "F" else (rows, columns)
    buffer = np.full((outer, inner + pad), np.nan, values.dtype)[:, :inner]
    view = buffer.T if order == "F" else buffer
    view[...] = values
    return view


LAYOUTS = ("rows", "columns", "padded rows", "padded columns")
SIZES = st.one_of(st.integers(1, 3), st.integers(1, 150))


@settings(max_examples=150)
@given(
    shape=st.tuples(SIZES, SIZES, st.one_of(st.integers(1, 3), st.integers(1, 4000))),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 3),
    dtype=st.sampled_from(["float32", "float64"]),
    factors=st.tuples(st.sampled_from([1, -2.5]), st.sampled_from([0, 1, 0.75])),
    threads=st.integers(1, 4),
)
def test_operands_by_rows_and_by_columns_give_the_same_product(
    open_pool: OpenPool,
    shape: tuple[int, int, int],
    layouts: tuple[str, str, str],
    dtype: str,
    factors: tuple[float, float],
    threads: int,
) -> None:
    (m, n, k), (alpha, beta) = shape, factors
    a, b = (
        lie(make_matrix(*s, dtype, 1), o) for s, o in zip([(m, k), (k, n)], layouts, strict=False)
    )
    old = make_matrix(m, n, dtype, 3)
    c = lie(np.full_like(old, np.nan) if beta == 0 else old, layouts[2])
    with open_pool(4) as pool:
        pool.multiply(a, b, c, alpha=alpha, beta=beta, threads=threads)
    assert_product(c, a, b, old, alpha=alpha, beta=beta)
    around = c.base if "padded" in layouts[2] and c.base is not None else c
    assert np.count_nonzero(np.isnan(around)) == around.size - c.size


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1, 4099, 4101), (4099, 1, 4101), (1, 1, 3_000_001), (1, 70_001, 33)]
)
def test_vectors_agree_with_float64(
    open_pool: OpenPool, shape: tuple[int, int, int], dtype: str
) -> None:
    m, n, k = shape
    a, b = make_matrix(m, k, dtype, 1), make_matrix(k, n, dtype, 2)
    c = np.full((m, n), np.nan, dtype)
    with open_pool(4) as pool:
        pool.multiply(a, b, c)
        assert_product(c, a, b)
        again = np.empty_like(c)
        pool.multiply(a, b, again)
    assert np.array_equal(c, again)


def test_vectors_with_strides_are_multiplied(open_pool: OpenPool) -> None:
    a, b = np.arange(300.0)[::3][None], np.ones((100, 7))
    row, column = np.full((1, 14), np.nan)[:, ::2], np.full((14, 2), np.nan)[::2, :1]
    with open_pool(2) as pool:
        pool.multiply(a, b, row)
        pool.multiply(b.T.copy(), a.T, column)
    assert np.all(row == a.sum())
    assert np.all(column == a.sum())


def test_blas_takes_matrices_with_one_unit_stride() -> None:
    matrix = np.zeros((6, 8), np.float32)
    assert find_blas_strides(matrix) == (32, 4)
    assert find_blas_strides(matrix.T) == (4, 32)
    assert find_blas_strides(matrix[1:3, 2:5]) == (32, 4)
    assert find_blas_strides(matrix[::2]) == (64, 4)
    assert find_blas_strides(matrix[:, ::2]) is None
    assert find_blas_strides(matrix[::-1]) is None
    assert find_blas_strides(np.broadcast_to(matrix[0], (5, 8))) is None
    assert find_blas_strides(matrix[:1, ::2]) == (4, 8)
    assert find_blas_strides(matrix[::2, :1]) == (64, 4)
    assert find_blas_strides(matrix[:1, :1]) == (4, 4)
    assert find_blas_strides(np.zeros(33, np.uint8)[1:].view(np.float32).reshape(2, 4)) is None


def test_products_that_blas_does_not_take_are_left_to_python(
    tmp_path: Path, kernel_cache: Path
) -> None:
    library, blas = load_library(CPU_LIBRARY, kernel_cache), find_blas()
    assert library is not None, "there is no C compiler"
    assert blas is not None, "NumPy has no OpenBLAS"
    pool = ThreadPool(library, 1)
    team = NativeTeam(pool, blas, cache_bytes=0)

    def takes(a: Matrix, b: Matrix, c: Matrix, alpha: float = 1.0) -> bool:
        return team.describe(a, b, c, alpha, 0.0) is not None

    class Watched(np.ndarray):  # type: ignore[type-arg]
        pass

    a, b, c = np.ones((5, 6)), np.ones((6, 7)), np.ones((5, 7))
    mapped = np.memmap(tmp_path / "a", np.float64, "w+", shape=(5, 6))
    assert takes(a, b, c)
    assert takes(mapped, b, c)
    assert not takes(a.view(Watched), b, c)
    assert not takes(a[:, ::2], b[::2], c)
    assert not takes(a, b, c, alpha=0)
    assert not takes(a[:, :0], b[:0], c)
    assert not takes(*(matrix.astype(np.int32) for matrix in (a, b, c)))
    pool.close()
    assert not takes(a, b, c), "the threads have ended"
    pool.close()


def test_all_threads_in_python_compute_at_the_same_time(open_pool: OpenPool) -> None:
    waiting, met = threading.Barrier(3), threading.local()

    class Meeting(np.ndarray):  # type: ignore[type-arg]
        def __array_ufunc__(self, ufunc: Any, _: str, *inputs: Any, out: Any) -> Any:
            if not hasattr(met, "others"):
                met.others = waiting.wait(10)
            return ufunc(np.asarray(inputs[0]), inputs[1], out=out)

    a, c = np.ones((2048, 256)).view(Meeting), np.zeros((2048, 256))
    with open_pool(3) as pool:
        pool.multiply(a, np.ones((256, 256)), c)
    assert np.all(c == 256)
    assert not waiting.broken


def test_an_interrupt_at_any_line_ends_a_product_in_python(open_pool: OpenPool) -> None:
    a, b = np.ones((256, 64), np.int32), np.ones((64, 256), np.int32)

    def multiply(last_line: int) -> bool:
        """Whether a product, interrupted where it comes to this line of the caller's, completes."""
        lines = 0

        def interrupt(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal lines
            if frame.f_code.co_name not in ("compute_next", "hear"):
                return None
            lines += event == "line"
            if lines == last_line:
                raise KeyboardInterrupt
            return interrupt

        c, before = np.zeros((256, 256), np.int32), sys.gettrace()
        sys.settrace(interrupt)
        try:
            pool.multiply(a, b, c, threads=2)
        except KeyboardInterrupt:
            seen = c.copy()
            time.sleep(0.001)
            assert np.array_equal(c, seen)
            return False
        finally:
            sys.settrace(before)
        return bool(np.all(c == 64))

    with open_pool(2) as pool:
        assert any(multiply(line) for line in range(1, 1000))
        assert not multiply(1)


def test_several_callers_share_a_pool(open_pool: OpenPool) -> None:
    rng = np.random.default_rng(1)
    start = threading.Barrier(5)

    def call_often(index: int) -> None:
        start.wait()
        for turn in range(12):
            m, n, k = 40 * index + 7, 300 + turn, 1 + 900 // (index + 1)
            a = rng.integers(-3, 4, (m, k)).astype(np.float32)
            b = np.ones((k, n), np.float32)
            c = np.full((m, n), np.nan, np.float32)
            told: list[float] = []
            stops = index == 3 and turn % 3 == 2
            try:
                pool.multiply(
                    a, b, c, progress=told.append if index % 2 else None,
                    cancelled=(lambda: bool(told)) if stops else None,  # noqa: B023
                )  # fmt: skip
            except ProductCancelled:
                assert stops
            else:
                assert np.array_equal(c, np.repeat(a.sum(1, keepdims=True), n, 1))

    with open_pool(3) as pool, ThreadPoolExecutor(5) as callers:
        list(callers.map(call_often, range(5)))


def test_a_pool_that_is_closed_during_a_product_lets_it_end(open_pool: OpenPool) -> None:
    a, b = np.ones((1500, 800), np.float32), np.ones((800, 900), np.float32)
    for pause in (0.0, 0.002, 0.01):
        pool, c = open_pool(4), np.zeros((1500, 900), np.float32)
        failures: list[BaseException] = []

        def call(pool: CpuPool = pool, c: Matrix = c, failures: Any = failures) -> None:
            try:
                pool.multiply(a, b, c)
            except CpuError as error:
                failures.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        time.sleep(pause)
        pool.close()
        caller.join()
        assert failures or np.all(c == 800)


def test_a_long_block_is_awaited_before_a_cancelled_product_returns(open_pool: OpenPool) -> None:
    a, b = np.ones((3000, 1500)), np.ones((1500, 1500))
    with open_pool(4) as pool:
        for pause in (0.002, 0.02):
            c, until = np.zeros((3000, 1500)), time.perf_counter() + pause
            with pytest.raises(ProductCancelled):
                pool.multiply(a, b, c, cancelled=lambda: time.perf_counter() > until)  # noqa: B023
            seen = c.copy()
            time.sleep(0.1)
            assert np.array_equal(c, seen)
