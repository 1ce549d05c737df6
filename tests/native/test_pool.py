"""Threads in C, closed while they are used and in a forked process; and threads for calls."""

import gc
import os
import threading
import warnings
import weakref
from pathlib import Path

import pytest

from tests.processes import wait_until
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.native.call_threads import CallThreads
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool


@pytest.fixture
def pool(kernel_cache):
    library = load_library(CPU_LIBRARY, kernel_cache)
    assert library is not None, "there is no C compiler"
    return ThreadPool(library, 2, settles=True)


def count_threads():
    return len(list(Path("/proc/self/task").iterdir()))


def await_threads(count):
    """Wait for a number of threads: joined ones are still listed for a moment."""
    wait_until(lambda: count_threads() == count, 10)


def test_closing_a_pool_ends_its_threads_and_may_be_repeated(pool):
    before = count_threads()
    pool.close()
    await_threads(before - 2)
    assert not pool.has_threads
    pool.close()
    pool.wake(2)
    pool.limit(1)
    with pool as address:
        assert address is None


def test_a_held_pool_is_freed_only_after_its_last_holder(pool):
    before = count_threads()
    freed = []
    free_pool = pool.library.free_pool
    with pool as outer, pool as inner:
        assert outer == inner is not None
        closer = threading.Thread(target=pool.close)
        closer.start()
        closer.join()
        await_threads(before - 2)
        pool.library.free_pool = freed.append
    pool.library.free_pool = free_pool
    assert freed == [outer]
    free_pool(outer)


def test_a_forked_process_has_no_threads(pool):
    with warnings.catch_warnings():  # Python 3.12 warns of forks with threads
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        pool.close()  # it does not wait for threads of the parent
        os._exit(int(pool.has_threads))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.has_threads
    pool.close()


def test_an_idle_thread_holds_nothing_of_its_last_call():
    threads = CallThreads(1, "idle")

    class Array:
        pass

    def fail(array):
        raise ValueError(array)

    for use in (lambda array: array, fail):
        array = Array()
        gone = weakref.ref(array)
        threads.submit(use, array).exception()
        threads.submit(int).result()  # the thread is through with the call before
        del array
        wait_until(lambda gone=gone: gc.collect() >= 0 and gone() is None, 5)
    threads.close()
