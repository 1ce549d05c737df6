"""The CPU pool takes rows part by part, and no thread waits between parts."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.cpu.row_parts import cut_at, give
from tests.matrices import FLOATS
from wavetrim.cpu.errors import CpuError, OperandError, ProductCancelled
from wavetrim.cpu.gemm import CpuPool

Matrix = NDArray[Any]
OpenPool = Callable[[int], CpuPool]


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 400), st.integers(1, 200), st.integers(1, 3000)),
    dtype=st.sampled_from([*FLOATS, "int8", "int64"]),
    factors=st.tuples(st.sampled_from([0, 1, -2]), st.sampled_from([0, 1, 2])),
    threads=st.integers(1, 4),
    data=st.data(),
)
def test_taken_rows_are_computed_once_and_others_stay_as_they_are(
    open_pool: OpenPool,
    shape: tuple[int, int, int],
    dtype: str,
    factors: tuple[int, int],
    threads: int,
    data: Any,
) -> None:
    (m, n, k), (alpha, beta) = shape, factors
    parts = cut_at(m, data.draw(st.lists(st.integers(1, m), max_size=5)))
    given_parts = parts[: data.draw(st.integers(0, len(parts)))]
    rng = np.random.default_rng(1)
    a = rng.integers(-1, 2, (m, k)).astype(dtype)
    b = rng.integers(-1, 2, (k, n)).astype(dtype)
    c = rng.integers(-1, 2, (m, n)).astype(dtype)
    expected = c.copy()
    with np.errstate(all="ignore"):
        for part in given_parts:
            product = a[part.start : part.stop].real.astype(np.int64) @ b.real.astype(np.int64)
            old = c[part.start : part.stop].real.astype(np.int64)
            expected[part.start : part.stop] = (alpha * product + beta * old).astype(dtype)
    told: list[float] = []
    with open_pool(4) as pool:
        pool.multiply_rows(
            a, b, c, give(given_parts), alpha=alpha, beta=beta, threads=threads,
            progress=told.append,
        )  # fmt: skip
    assert np.array_equal(c, expected)
    assert sum(told) == pytest.approx(sum(map(len, given_parts)))


class Held(np.ndarray):  # type: ignore[type-arg]
    """A matrix that calls `meet` with the result before each of its products."""

    meet: Callable[[Matrix], None]

    def __array_finalize__(self, parent: Any) -> None:
        self.meet = getattr(parent, "meet", lambda _: None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any) -> Any:
        self.meet(out[0])
        return getattr(ufunc, method)(np.asarray(inputs[0]), inputs[1], out=out)


def hold(rows: int, columns: int, meet: Callable[[Matrix], None]) -> Matrix:
    matrix = np.ones((rows, columns)).view(Held)
    matrix.meet = meet
    return matrix


def test_the_next_part_begins_while_a_block_of_the_last_one_is_computed(
    open_pool: OpenPool,
) -> None:
    begun_next, overlapped = threading.Event(), threading.Event()
    c = np.zeros((2048, 1024))
    first = c[1024:].__array_interface__["data"][0]

    def meet(out: Matrix) -> None:
        if out.__array_interface__["data"][0] == first:
            if begun_next.wait(10):
                overlapped.set()
        elif out.__array_interface__["data"][0] < first:
            begun_next.set()

    a = hold(2048, 512, meet)
    with open_pool(3) as pool:
        pool.multiply_rows(a, np.ones((512, 1024)), c, give([range(1024, 2048), range(1024)]))
    assert overlapped.is_set()
    assert np.all(c == 512)


def test_a_large_part_after_a_small_one_wakes_more_threads(open_pool: OpenPool) -> None:
    names = set()
    waiting = threading.Barrier(3)

    def meet(out: Matrix) -> None:
        if len(out) > 1 and threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            waiting.wait(10)

    a, c = hold(2048, 256, meet), np.zeros((2048, 256))
    with open_pool(3) as pool:
        parts = [range(2047, 2048), range(2047)]
        pool.multiply_rows(a, np.ones((256, 256)), c, give(parts))
    assert len(names) == 3
    assert np.all(c == 256)


def test_parts_are_taken_one_at_a_time_with_the_rows_in_progress(open_pool: OpenPool) -> None:
    inside, in_hand = threading.Lock(), []
    parts = cut_at(1600, list(range(100, 1600, 100)))
    left = iter(parts)

    def take(rows: float) -> range:
        assert inside.acquire(blocking=False)
        in_hand.append(rows)
        time.sleep(0.001)
        inside.release()
        return next(left, range(0))

    c = np.zeros((1600, 500))
    with open_pool(4) as pool:
        pool.multiply_rows(np.ones((1600, 300)), np.ones((300, 500)), c, take)
    assert np.all(c == 300)
    assert in_hand[0] == 0
    assert len(in_hand) == len(parts)  # none is taken after the last one
    assert all(-1e-6 < rows <= 1600 for rows in in_hand)


def test_an_error_while_taking_ends_the_product(open_pool: OpenPool) -> None:
    def take(_: float) -> range:
        if np.any(c):
            raise LookupError("no more to be had")
        return range(1000, 2000)

    c = np.zeros((2000, 1000))
    with open_pool(4) as pool:
        with pytest.raises(LookupError, match="no more"):
            pool.multiply_rows(np.ones((2000, 500)), np.ones((500, 1000)), c, take)
        seen = c.copy()
        time.sleep(0.05)
        assert np.array_equal(c, seen)
        pool.multiply(np.ones((2000, 500)), np.ones((500, 1000)), c)
    assert np.all(c == 500)


def test_a_cancelled_product_takes_no_more_parts(open_pool: OpenPool) -> None:
    told: list[float] = []
    parts = cut_at(4000, list(range(500, 4000, 500)))
    c = np.zeros((4000, 1000))
    with open_pool(4) as pool:
        with pytest.raises(ProductCancelled):
            pool.multiply_rows(
                np.ones((4000, 500)), np.ones((500, 1000)), c, give(parts),
                progress=told.append, cancelled=lambda: bool(told),
            )  # fmt: skip
        seen = c.copy()
        time.sleep(0.05)
        assert np.array_equal(c, seen)
    assert not np.any(c[:2000])


def test_without_rows_nothing_is_computed(open_pool: OpenPool) -> None:
    c = np.zeros((2, 2))
    with open_pool(2) as pool:
        pool.multiply_rows(np.ones((2, 2)), np.ones((2, 2)), c, give([]))
    assert not np.any(c)
    with pytest.raises(CpuError, match="closed"):
        pool.multiply_rows(np.ones((2, 2)), np.ones((2, 2)), c, give([]))
    with open_pool(2) as pool, pytest.raises(OperandError):
        pool.multiply_rows(np.ones((2, 3)), np.ones((2, 2)), c, give([]))
