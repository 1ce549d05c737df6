"""Prefault: makes the pages of a new result while the product is computed.

A new NumPy array has addresses but no memory. The first write to each page is a fault, which would
delay the copies out of the GPU: on an H200 with 16 cores a new result of 64 MB took twice as long
as one that had been written before. So several threads make the pages while the operands are copied
in.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.pages import (
    HUGE_PAGE_BYTES,
    ask_for_huge_pages,
    cut_range,
    is_missing,
    populate_range,
)
from wavetrim.scheduler.product import Matrix

PREPARED_BYTES: Final = 2**30
"""Most bytes of a result whose pages are made beforehand. Chosen: larger products compute so long
that faults delay them little."""

LEAST_BYTES: Final = 2 * HUGE_PAGE_BYTES
"""Smallest result whose pages are made beforehand: a huge page for each of two threads. For less,
waking threads takes as long as the faults."""

_LOOKS: Final = 16
"""Pages that are examined to see whether a result is new; chosen."""


@contextlib.contextmanager
def make_pages(c: Matrix, threads: CallThreads) -> Iterator[None]:
    """Make the pages of a new C while the block runs, and none after the block.

    Args:
        c: Any matrix; nothing is done unless it is contiguous. Its elements keep their values.
        threads: They make the pages.
    """
    pieces: list[Future[bool]] = []
    if lacks_pages(c):
        ask_for_huge_pages(c)
        for begin, end in cut_range(c.ctypes.data, min(c.nbytes, PREPARED_BYTES)):
            pieces.append(threads.submit(populate_range, begin, end))
    try:
        yield
    finally:
        for piece in pieces:
            if not piece.cancel():
                piece.result()


def lacks_pages(c: Matrix) -> bool:
    """Whether most pages of a matrix are missing, judged by a few of them.

    Args:
        c: Any matrix; False if it is small or not contiguous.
    """
    if c.nbytes < LEAST_BYTES or not (c.flags.c_contiguous or c.flags.f_contiguous):
        return False
    step = c.nbytes // _LOOKS
    begin = c.ctypes.data + step // 2
    there = 0
    for look in range(_LOOKS):
        there += not is_missing(begin + look * step)
        if there == _LOOKS // 2:  # usually so after half of the looks
            return False
    return True
