"""Pages of memory by system calls: which are missing, and making them before they are used.

The first touch of a page is a fault, which delays the few threads that write a result. The system
makes the pages of a whole range in one call, as huge pages of 2 MiB if it can (MADV_POPULATE_WRITE,
from Linux 5.14 on).
"""

import ctypes
import errno
import itertools
import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_PIECE_BYTES: Final = 8 * 2**20
"""Memory whose pages are made in one call, which cannot be cancelled; chosen."""

HUGE_PAGE_BYTES: Final = 2 * 2**20
"""Size of a huge page (x86-64, and ARM with pages of 4 KiB)."""

_MADV_HUGEPAGE: Final = 14
_MADV_POPULATE_WRITE: Final = 23
_MADV_COLLAPSE: Final = 25

Matrix = NDArray[Any]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def is_missing(address: int) -> bool:
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


def ask_for_huge_pages(matrix: Matrix) -> None:
    """Ask for huge pages; the system may refuse."""
    _advise(matrix.ctypes.data, matrix.ctypes.data + matrix.nbytes, _MADV_HUGEPAGE)


def _advise(begin: int, end: int, advice: int) -> int:
    """Call madvise for the pages of a range, without the interpreter's lock; returns its error."""
    start = begin - begin % mmap.PAGESIZE
    return ctypes.get_errno() if _libc.madvise(start, end - start, advice) else 0
