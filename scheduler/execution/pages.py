"""Memory by system calls: shared memory is mapped, and pages are made before they are used.

A mapping begins at a multiple of 2 MiB, for huge pages, and ends with its last view. Python's
`mmap` takes no address, and can be closed while views of it are in use.

A new NumPy array has addresses but no memory. The first touch of each page is a fault, which delays
the few threads that write a result: on an H200 with 16 cores a new result of 64 MB took twice as
long as one that had been written before. So several threads make the pages while the operands are
copied in. The system makes those of a whole range in one call, as huge pages of 2 MiB if it can
(MADV_POPULATE_WRITE, from Linux 5.14 on).
"""

import contextlib
import ctypes
import errno
import itertools
import mmap
import os
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.call_threads import CallThreads
from wavetrim.native.plain import Matrix

_PIECE_BYTES: Final = 8 * 2**20
"""Memory whose pages are made in one call, which cannot be cancelled; chosen."""

HUGE_PAGE_BYTES: Final = 2 * 2**20
"""Size of a huge page (x86-64, and ARM with pages of 4 KiB)."""

PREPARED_BYTES: Final = 2**30
"""Most bytes of a result whose pages are made beforehand. Chosen: larger products compute so long
that faults delay them little."""

LEAST_BYTES: Final = 2 * HUGE_PAGE_BYTES
"""Smallest result whose pages are made beforehand: a huge page for each of two threads. For less,
waking threads takes as long as the faults."""

_LOOKS: Final = 16
"""Pages that are examined to see whether a result is new; chosen."""

_MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value
_MADV_HUGEPAGE: Final = 14
_MADV_POPULATE_WRITE: Final = 23
_MADV_COLLAPSE: Final = 25


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def map_shared(fd: int, size_bytes: int) -> NDArray[np.uint8]:
    """Map the first bytes of a file, readable and writable, as a vector.

    The descriptor may be closed afterwards. The mapping ends with its last array or memoryview.
    Bytes beyond the end of the file must not be accessed.

    Raises:
        OSError: The system refuses the mapping.
    """
    # Reserve more than is mapped, so that an aligned part of it is long enough.
    reserved_bytes = size_bytes + HUGE_PAGE_BYTES
    reserved = _check_mapping(
        _libc.mmap(None, reserved_bytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    )
    address = -(-reserved // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
    try:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        _check_mapping(_libc.mmap(address, size_bytes, access, mmap.MAP_SHARED | _MAP_FIXED, fd, 0))
    except OSError:
        _libc.munmap(reserved, reserved_bytes)
        raise
    end = address + -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    for begin, stop in ((reserved, address), (end, reserved + reserved_bytes)):
        if begin < stop:
            _libc.munmap(begin, stop - begin)
    memory = (ctypes.c_uint8 * size_bytes).from_address(address)
    weakref.finalize(memory, _libc.munmap, address, size_bytes).atexit = False
    return np.ctypeslib.as_array(memory)


def _check_mapping(address: int | None) -> int:
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"mmap: {os.strerror(number)}")
    return address


@contextlib.contextmanager
def make_pages(c: Matrix, threads: CallThreads) -> Iterator[None]:
    """Make the pages of a new C while the block runs, and none after the block.

    Nothing is done unless C is contiguous. Its elements keep their values.
    """
    pieces: list[Future[bool]] = []
    if lacks_pages(c):
        _advise(c.ctypes.data, c.ctypes.data + c.nbytes, _MADV_HUGEPAGE)  # which it may refuse
        for begin, end in cut_range(c.ctypes.data, min(c.nbytes, PREPARED_BYTES)):
            pieces.append(threads.submit(populate_range, begin, end))
    try:
        yield
    finally:
        for piece in pieces:
            if not piece.cancel():
                piece.result()


def lacks_pages(c: Matrix) -> bool:
    """Whether most pages are missing, judged by a few; False if C is small or not contiguous."""
    if c.nbytes < LEAST_BYTES or not (c.flags.c_contiguous or c.flags.f_contiguous):
        return False
    step = c.nbytes // _LOOKS
    begin = c.ctypes.data + step // 2
    there = 0
    for look in range(_LOOKS):
        there += not _is_missing(begin + look * step)
        if there == _LOOKS // 2:  # usually so after half of the looks
            return False
    return True


def _is_missing(address: int) -> bool:
    """Whether the page of an address is missing; False if the system does not tell."""
    start = address - address % mmap.PAGESIZE
    there = ctypes.c_ubyte(1)
    refused = _libc.mincore(start, 1, ctypes.byref(there))
    return not refused and not there.value & 1


def cut_range(begin: int, count: int) -> list[tuple[int, int]]:
    """Cut `count` bytes from the address `begin` into ranges that end where huge pages begin."""
    end = begin + count
    first_cut = begin - begin % HUGE_PAGE_BYTES + _PIECE_BYTES
    cuts = [begin, *range(first_cut, end, _PIECE_BYTES), end]
    return list(itertools.pairwise(cuts))


def touch_range(begin: int, end: int) -> None:
    """Make pages by writing a byte of each; for systems without MADV_POPULATE_WRITE.

    Bytes keep their values. No other thread may write there at the same time.
    """
    step = mmap.PAGESIZE
    for first, last in ((begin, begin + 1), (begin - begin % step + step, end)):
        if first >= last:
            continue
        array = (ctypes.c_uint8 * (last - first)).from_address(first)
        touched = np.ctypeslib.as_array(array)[::step]
        np.bitwise_or(touched, 0, out=touched)


def populate_range(begin: int, end: int) -> bool:
    """Make the pages of a range. Other threads may write there at the same time.

    Returns:
        False if the system cannot do that.
    """
    return _advise(begin, end, _MADV_POPULATE_WRITE) != errno.EINVAL


def collapse_range(begin: int, end: int) -> bool:
    """Move the bytes of shared memory into huge pages. Other threads may use it at the same time.

    Both ends are multiples of 2 MiB. Pages that are in use by the system stay as they are.

    Returns:
        False if the system cannot do that: before Linux 6.1, or without huge pages.
    """
    return _advise(begin, end, _MADV_COLLAPSE) not in {errno.EINVAL, errno.ENOSYS}


def _advise(begin: int, end: int, advice: int) -> int:
    """Call madvise for the pages of a range, without the interpreter's lock; returns its error."""
    start = begin - begin % mmap.PAGESIZE
    return ctypes.get_errno() if _libc.madvise(start, end - start, advice) else 0
