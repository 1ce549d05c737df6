"""A product reports rows that are done and final, in every caller, and can be cancelled."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matrices import draw_operands
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="module")
def pools(kernel_cache):
    opened = {threads: CpuPool(threads, cache_dir=kernel_cache) for threads in (1, 2, 4)}
    for pool in opened.values():
        assert pool.prepare()
    yield opened
    for pool in opened.values():
        pool.close()


def test_progress_comes_in_the_calling_thread(pool):
    a, b, c = np.ones((1601, 600)), np.ones((600, 1401)), np.empty((1601, 1401))
    calls = []
    pool.multiply(a, b, c, progress=lambda _: calls.append(threading.current_thread()))
    assert len(calls) > 1
    assert set(calls) == {threading.current_thread()}


def test_a_cancelled_product_ends_early_and_leaves_the_pool_usable(pool):
    a = np.ones((2048, 1024))
    c = np.zeros((2048, 2048))
    rows = []
    with pytest.raises(ProductCancelled):
        pool.multiply(a, a.T, c, beta=1, progress=rows.append, cancelled=lambda: bool(rows))
    assert 0 < sum(rows) < 2048
    pool.multiply(a, a.T, c)
    assert np.all(c == 1024)


def test_an_error_in_the_progress_callback_stops_the_other_blocks(pool):
    a = np.ones((2048, 1024))
    c = np.zeros((2048, 2048))

    def fail(rows):
        raise LookupError("the caller's own error")

    with pytest.raises(LookupError, match="own error"):
        pool.multiply(a, a.T, c, beta=1, progress=fail)
    finished = c.copy()
    time.sleep(0.1)
    assert np.array_equal(c, finished)
    assert np.any(c == 0)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 900), st.integers(1, 900), st.integers(2, 1200)),
    dtype=st.sampled_from(["float32", "float64"]),
    beta=st.sampled_from([0.0, 1.0]),
    threads=st.sampled_from([1, 2, 4]),
)
def test_final_rows_are_not_written_again(pools, shape, dtype, beta, threads):
    m, n, k = shape
    a, b, c = draw_operands(m, n, k, dtype=dtype)
    expected = a @ b + beta * c
    if beta == 0:
        c[:] = np.nan
    counts = []

    def check(final):
        counts.append(sum(map(len, final)))
        for rows in final:
            part = slice(rows.start, rows.stop)
            assert np.array_equal(c[part], expected[part])

    pools[threads].multiply(a, b, c, beta=beta, final=check)
    assert np.array_equal(c, expected)
    assert counts == sorted(counts)
    assert counts[-1:] in ([], [m])  # none where K is cut


def test_a_pool_that_is_closed_during_a_product_leaves_it_to_its_caller(open_pool):
    a, c = np.ones((900, 400), np.float32), np.empty((900, 900), np.float32)
    for threads in (1, 2, 3, 1, 2, 3):
        c.fill(np.nan)
        begun = threading.Event()
        with open_pool(threads) as pool, ThreadPoolExecutor(1) as caller:
            running = caller.submit(pool.multiply, a, a.T, c, progress=lambda _: begun.set())  # noqa: B023
            assert begun.wait(60)
            pool.close()
            running.result()
        assert (c == 400).all()


def test_more_callers_share_a_pool_than_tasks_are_on_offer_at_one_time(open_pool):
    rng = np.random.default_rng(1)
    start = threading.Barrier(18)

    def call_often(index):
        start.wait()
        for turn in range(6):
            size = index % 5
            m, n, k = 40 * size + 7, 300 + turn, 1 + 900 // (size + 1)
            a = rng.integers(-3, 4, (m, k)).astype(np.float32)
            b = np.ones((k, n), np.float32)
            c = np.full((m, n), np.nan, np.float32)
            told = []
            stops = size == 3 and turn % 3 == 2
            try:
                pool.multiply(
                    a, b, c, progress=told.append if index % 2 else None,
                    cancelled=(lambda: bool(told)) if stops else None,  # noqa: B023
                )  # fmt: skip
            except ProductCancelled:
                assert stops
            else:
                assert np.array_equal(c, np.repeat(a.sum(1, keepdims=True), n, 1))

    with open_pool(3) as pool, ThreadPoolExecutor(start.parties) as callers:
        list(callers.map(call_often, range(start.parties)))
