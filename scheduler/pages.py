"""The pages of mapped files, made by several threads before the product touches them.

The first touch of a page in a mapped file is a fault, and a product touches its pages from few
threads, at times that matter. So they are made beforehand, all at once, while the plan is chosen.
The kernel does so for a whole range in one call, in pages of 2 MiB where the file system has them
(MADV_POPULATE_WRITE of Linux 5.14; ext4 has large pages since 6.16). A new file gains most: its
pages have to be found and cleared, too.
"""

import contextlib
import ctypes
import errno
import itertools
import mmap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.call_threads import CallThreads

PREPARED_BYTES: Final = 2**30
"""So much of each matrix is made beforehand; what lies behind is made where it is first touched.

A larger product computes so much longer that it hides its faults, and would wait here for seconds.
"""

_PIECE_BYTES: Final = 8 * 2**20
_HUGE_PAGE_BYTES: Final = 2 * 2**20
_MADV_HUGEPAGE: Final = 14
_MADV_POPULATE_READ: Final = 22
_MADV_POPULATE_WRITE: Final = 23
_MADV_COLLAPSE: Final = 25

Matrix = NDArray[Any]


@dataclass(slots=True)
class Preparation:
    """What became of the pages.

    Attributes:
        seconds: From the beginning until the last page was there; 0 until then.
    """

    seconds: float = 0.0


@contextlib.contextmanager
def prepare_pages(
    out: Matrix, operands: Sequence[Matrix], *, threads: int
) -> Iterator[Preparation]:
    """Make the pages of a product's matrices while the block runs; it ends when they are there.

    Nothing is made that would take more than half of the memory that is free. What cannot be made
    is left to the product.

    Args:
        out: Contiguous in memory, writable; its elements stay as they are.
        operands: Contiguous in memory; only read.
        threads: How many may work at it.
    """
    start = time.perf_counter()
    preparation = Preparation()
    wanted = [(out, True), *((operand, False) for operand in operands)]
    if sum(min(matrix.nbytes, PREPARED_BYTES) for matrix, _ in wanted) > _find_free_bytes() / 2:
        yield preparation
        return
    ask_for_huge_pages(out)
    pool = CallThreads(threads, "pages")
    pieces: list[Future[float]] = []
    try:
        for matrix, writable in wanted:
            for begin, end in cut_range(matrix.ctypes.data, min(matrix.nbytes, PREPARED_BYTES)):
                pieces.append(pool.submit(_make_range, begin, end, writable=writable))
        yield preparation
        preparation.seconds = max(piece.result() for piece in pieces) - start
    finally:
        for piece in pieces:
            piece.cancel()
        pool.close()


def cut_range(begin: int, count: int) -> list[tuple[int, int]]:
    """Ranges of addresses that cover `count` bytes from `begin` on, cut where huge pages begin."""
    end = begin + count
    first_cut = begin - begin % _HUGE_PAGE_BYTES + _PIECE_BYTES
    cuts = [begin, *range(first_cut, end, _PIECE_BYTES), end]
    return list(itertools.pairwise(cuts))


def touch_range(begin: int, end: int, *, writable: bool) -> None:
    """Touch one byte of each page, for kernels that know no better; the bytes stay as they are.

    Nobody may write there meanwhile.
    """
    step = mmap.PAGESIZE
    for first, last in ((begin, begin + 1), (begin - begin % step + step, end)):
        if first >= last:
            continue
        array = (ctypes.c_uint8 * (last - first)).from_address(first)
        touched = np.ctypeslib.as_array(array)[::step]
        if writable:
            np.bitwise_or(touched, 0, out=touched)
        else:
            np.bitwise_or.reduce(touched)


def populate_range(begin: int, end: int, *, writable: bool) -> bool:
    """Have the kernel make the pages of a range, whatever others write there meanwhile.

    Returns:
        False where the kernel cannot do that.
    """
    advice = _MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ
    return _advise(begin, end, advice) != errno.EINVAL


def collapse_range(begin: int, end: int) -> bool:
    """Put the bytes of shared memory into pages of 2 MiB, whatever others do there meanwhile.

    Both ends are multiples of 2 MiB. Pages that something holds stay as they are.

    Returns:
        False where the kernel cannot do that: before Linux 6.1, or without huge pages.
    """
    return _advise(begin, end, _MADV_COLLAPSE) not in {errno.EINVAL, errno.ENOSYS}


def _make_range(begin: int, end: int, *, writable: bool) -> float:
    """Make the pages of a range; returns when that was done, by the performance counter."""
    if not populate_range(begin, end, writable=writable):
        touch_range(begin, end, writable=writable)
    return time.perf_counter()


def ask_for_huge_pages(matrix: Matrix) -> None:
    """A wish; the kernel refuses it where it has none."""
    _advise(matrix.ctypes.data, matrix.ctypes.data + matrix.nbytes, _MADV_HUGEPAGE)


def _advise(begin: int, end: int, advice: int) -> int:
    """Call madvise for the pages of a range, without the interpreter's lock; returns its error."""
    libc = ctypes.CDLL(None, use_errno=True)
    start = begin - begin % mmap.PAGESIZE
    address, length = ctypes.c_void_p(start), ctypes.c_size_t(end - start)
    return ctypes.get_errno() if libc.madvise(address, length, advice) else 0


def _find_free_bytes() -> float:
    """Memory that can be had without swapping; any amount where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return float("inf")
    lines = dict(line.split(":", 1) for line in text.splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024
