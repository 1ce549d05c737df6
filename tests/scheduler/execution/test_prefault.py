"""The pages of fresh results are made during the product, and no others."""

import mmap
import time

import numpy as np
import pytest

from wavetrim.scheduler.execution import pages, prefault
from wavetrim.scheduler.execution.prefault import LEAST_BYTES, Prefault, lacks_pages

ROWS, COLUMNS = 1031, 4099
"""About 17 MB of float32."""


@pytest.fixture
def fresh_results():
    results = Prefault(3)
    yield results
    results.close()


def make_unwritten(rows=ROWS, columns=COLUMNS, order="C"):
    """A matrix that was never written: it has addresses, and no memory yet."""
    pages = mmap.mmap(-1, rows * columns * 4)
    flat = np.frombuffer(pages, np.float32)
    return flat.reshape((rows, columns), order=order)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_fresh_until_it_has_been_written(order):
    c = make_unwritten(order=order)
    assert lacks_pages(c)
    c[...] = 1
    assert not lacks_pages(c)


def test_a_mostly_written_matrix_is_not_fresh():
    c = make_unwritten()
    c[: ROWS // 4] = 1
    assert lacks_pages(c)
    c[: 3 * ROWS // 4] = 1
    assert not lacks_pages(c)


def test_small_matrices_and_views_are_not_fresh():
    columns = 512
    rows = LEAST_BYTES // 4 // columns
    assert lacks_pages(make_unwritten(rows, columns))
    assert not lacks_pages(make_unwritten(rows - 1, columns))
    assert not lacks_pages(make_unwritten()[:, : COLUMNS - 1])
    assert not lacks_pages(np.empty((0, 5), np.float32))


def test_without_mincore_no_matrix_is_fresh(monkeypatch):
    c = make_unwritten()

    class Refusing:
        @staticmethod
        def mincore(*_):
            return -1

    monkeypatch.setattr(pages, "_libc", Refusing)
    assert not lacks_pages(c)


def test_the_pages_of_a_fresh_result_are_made_during_the_block(fresh_results):
    c = make_unwritten()
    with fresh_results.make_pages(c):
        c[5, 7] = 3
        wait_until_made(c)
    assert c[5, 7] == 3
    assert c.sum() == 3


def wait_until_made(c):
    """Wait until no page is missing; the test's time limit ends this otherwise."""
    while lacks_pages(c):
        pass


def test_only_the_beginning_of_a_large_result_is_prefaulted(fresh_results, monkeypatch):
    monkeypatch.setattr(prefault, "PREPARED_BYTES", 10**6)
    c = make_unwritten()
    with fresh_results.make_pages(c):
        pass
    assert lacks_pages(c)


def test_no_page_is_made_after_the_block(fresh_results, monkeypatch):
    under_way = []

    def populate_slowly(begin, end):
        under_way.append(begin)
        time.sleep(0.05)
        under_way.remove(begin)
        return True

    monkeypatch.setattr(prefault, "populate_range", populate_slowly)
    monkeypatch.setattr(prefault, "cut_range", lambda *_: [(n, n + 1) for n in range(9)])
    with fresh_results.make_pages(make_unwritten()):
        while not under_way:
            time.sleep(0.001)
    assert not under_way
    time.sleep(0.1)
    assert not under_way


def test_an_error_in_the_block_is_raised(fresh_results):
    with pytest.raises(KeyError), fresh_results.make_pages(make_unwritten()):
        raise KeyError


def test_what_others_write_during_prefault_stays(fresh_results):
    for _ in range(20):
        c = make_unwritten()
        with fresh_results.make_pages(c):
            c[...] = 7
        assert (c == 7).all()


def test_a_written_result_starts_no_threads(fresh_results):
    c = np.ones((ROWS, COLUMNS), np.float32)
    with fresh_results.make_pages(c):
        pass
    assert fresh_results._pool is None
