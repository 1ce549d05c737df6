import gc
import weakref

from tests.processes import wait_until
from wavetrim.native.call_threads import CallThreads


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
