"""The pages of a result that nobody has touched yet, made while the product is computed.

A new array of NumPy's has addresses and no memory. Who writes to it first is held up at every page,
and here that would be the copies out of the GPU: on an H200 with 16 cores a fresh result of 64 MB
took twice as long as one that had been written before. Several threads make its pages while the
operands are still on their way to the GPU.
"""

import contextlib
import ctypes
import mmap
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Final

from numpy.typing import NDArray

from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.pages import ask_for_huge_pages, cut_range, populate_range

PREPARED_BYTES: Final = 2**30
"""So much of a result is made beforehand: a larger product computes so much longer that it hides
its faults, and would wait here for seconds."""

LEAST_BYTES: Final = 4 << 20
"""Of smaller results the pages are made as fast as threads are woken."""

_LOOKS: Final = 16

Matrix = NDArray[Any]


class Prefault:
    """Threads that make pages; they are started when a fresh result is met first.

    Args:
        threads: How many.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._starting = threading.Lock()
        self._pool: CallThreads | None = None

    @contextlib.contextmanager
    def make_pages(self, c: Matrix) -> Iterator[None]:
        """Make the pages of C while the block runs, if it is fresh; none is made after the block.

        Args:
            c: Any matrix; only one that is contiguous is looked at. Its elements stay as they are.
        """
        pieces: list[Future[bool]] = []
        if is_fresh(c):
            ask_for_huge_pages(c)
            pool = self._start()
            for begin, end in cut_range(c.ctypes.data, min(c.nbytes, PREPARED_BYTES)):
                pieces.append(pool.submit(populate_range, begin, end))
        try:
            yield
        finally:
            for piece in pieces:
                if not piece.cancel():
                    piece.result()

    def close(self) -> None:
        """End the threads."""
        with self._starting:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def _start(self) -> CallThreads:
        with self._starting:
            if self._pool is None:
                self._pool = CallThreads(self._threads, "prefault")
            return self._pool


def is_fresh(c: Matrix) -> bool:
    """Whether most of a matrix's pages are missing, by some of them.

    Args:
        c: Any matrix; False for small ones, and for those that are not contiguous.
    """
    if c.nbytes < LEAST_BYTES or not (c.flags.c_contiguous or c.flags.f_contiguous):
        return False
    step = c.nbytes // _LOOKS
    begin = c.ctypes.data + step // 2
    there = 0
    for look in range(_LOOKS):
        there += not _is_missing(begin + look * step)
        if there == _LOOKS // 2:  # most results have been written, so this is soon known
            return False
    return True


def _is_missing(address: int) -> bool:
    """Whether the page of an address is not in memory; False where the system does not tell."""
    start = address - address % mmap.PAGESIZE
    there = ctypes.c_ubyte(1)
    refused = _libc.mincore(start, 1, ctypes.byref(there))
    return not refused and not there.value & 1


_libc = ctypes.CDLL(None)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
