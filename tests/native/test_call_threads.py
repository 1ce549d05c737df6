import gc
import threading
import weakref
from concurrent.futures import CancelledError, Future

import pytest

from tests.processes import wait_until
from wavetrim.native.call_threads import CallThreads


def test_closing_waits_for_submitted_calls_and_ends_the_threads():
    threads = CallThreads(1, "closing")
    begun, go_on = threading.Event(), threading.Event()

    def wait():
        begun.set()
        go_on.wait(30)

    first, cancelled = threads.submit(wait), threads.submit(int)
    last: Future[int] = threads.submit(int, "5")
    begun.wait(30)
    assert cancelled.cancel()
    threading.Timer(0.01, go_on.set).start()
    threads.close()
    assert first.done()
    assert last.result(0) == 5
    with pytest.raises(CancelledError):
        cancelled.result()
    assert not any(each.name.startswith("closing") for each in threading.enumerate())
    with pytest.raises(RuntimeError, match="'closing' were ended"):
        threads.submit(int)
    threads.close()


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
