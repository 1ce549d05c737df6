"""Teams of threads in C and in Python: layouts, vectors, errors, callers and their end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.gemm import CpuPool

Matrix = NDArray[Any]
OpenPool = Callable[[int], CpuPool]


def test_several_callers_share_a_pool(open_pool):
    rng = np.random.default_rng(1)
    start = threading.Barrier(5)

    def call_often(index):
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


def test_a_long_block_is_awaited_before_a_cancelled_product_returns(open_pool):
    a, b = np.ones((3000, 1500)), np.ones((1500, 1500))
    with open_pool(4) as pool:
        for pause in (0.002, 0.02):
            c, until = np.zeros((3000, 1500)), time.perf_counter() + pause
            with pytest.raises(ProductCancelled):
                pool.multiply(a, b, c, cancelled=lambda: time.perf_counter() > until)  # noqa: B023
            seen = c.copy()
            time.sleep(0.1)
            assert np.array_equal(c, seen)
