"""The pages of fresh results are made during the product, and no others."""

import mmap

import numpy as np
import pytest

from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.pages import lacks_pages, make_pages

ROWS, COLUMNS = 1031, 4099
"""About 17 MB of float32."""


@pytest.fixture
def threads():
    threads = CallThreads(3, "prefault")
    yield threads
    threads.close()


def make_unwritten():
    """A matrix that was never written: it has addresses, and no memory yet."""
    pages = mmap.mmap(-1, ROWS * COLUMNS * 4)
    return np.frombuffer(pages, np.float32).reshape(ROWS, COLUMNS)


def test_the_pages_of_a_fresh_result_are_made_during_the_block(threads):
    c = make_unwritten()
    with make_pages(c, threads):
        c[5, 7] = 3
        while lacks_pages(c):  # the test's time limit ends this otherwise
            pass
    assert c[5, 7] == c.sum() == 3


def test_what_others_write_during_prefault_stays(threads):
    for _ in range(20):
        c = make_unwritten()
        with make_pages(c, threads):
            c[...] = 7
        assert (c == 7).all()
