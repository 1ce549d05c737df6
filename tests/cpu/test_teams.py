"""Teams of threads in C and in Python: layouts, vectors, errors, callers and their end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.cpu.native_team import NativeTeam
from wavetrim.cpu.prepared import describe_layout, prepare
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool

Matrix = NDArray[Any]
OpenPool = Callable[[int], CpuPool]


def test_products_that_blas_does_not_take_are_left_to_python(
    tmp_path: Path, kernel_cache: Path
) -> None:
    library, blas = load_library(CPU_LIBRARY, kernel_cache), find_blas()
    assert library is not None, "there is no C compiler"
    assert blas is not None, "NumPy has no OpenBLAS"
    pool = ThreadPool(library, 1)
    team = NativeTeam(pool, blas, cache_bytes=0)

    def takes(a: Matrix, b: Matrix, c: Matrix, alpha: float = 1.0) -> bool:
        prepared = prepare(*map(describe_layout, (a, b, c)), 2)
        return prepared is not None and team.multiply(a, b, c, prepared, 2, alpha=alpha, beta=0.0)

    class Watched(np.ndarray):  # type: ignore[type-arg]
        pass

    a, b, c = np.ones((500, 600)), np.ones((600, 700)), np.zeros((500, 700))
    mapped = np.memmap(tmp_path / "a", np.float64, "w+", shape=(500, 600))
    assert takes(a, b, c)
    assert np.all(c == 600)
    assert takes(mapped, b, c)
    assert np.all(c == 0)
    assert not takes(a.view(Watched), b, c)
    assert not takes(a[:, ::2], b[::2], c)
    assert not takes(a, b, c, alpha=0)
    assert not takes(a[:, :0], b[:0], c)
    assert not takes(*(matrix.astype(np.int32) for matrix in (a, b, c)))
    pool.close()
    assert not takes(a, b, c), "the threads have ended"
    assert np.all(c == 0)
    pool.close()


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
