"""Shared memory mapped into this process, at addresses where huge pages may lie.

Python's own `mmap` takes no address, and its memory goes while views of it are in use. Here a
mapping begins at a multiple of 2 MiB, and goes with its last view.
"""

import ctypes
import mmap
import os
import weakref
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE_BYTES: Final = 2 * 2**20

_MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value


def map_shared(fd: int, size_bytes: int) -> NDArray[np.uint8]:
    """Map the first bytes of a descriptor, readable and writable, as a vector.

    The descriptor may be closed afterwards. The mapping ends when the last array or memoryview of
    it is gone; bytes after the end of the file must not be touched.

    Raises:
        OSError: The system refuses it.
    """
    libc = _find_libc()
    # More is reserved than is mapped, so that a multiple lies in it with enough after it.
    reserved_bytes = size_bytes + HUGE_PAGE_BYTES
    reserved = _check(
        libc.mmap(None, reserved_bytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    )
    address = -(-reserved // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
    try:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        _check(libc.mmap(address, size_bytes, access, mmap.MAP_SHARED | _MAP_FIXED, fd, 0))
    except OSError:
        libc.munmap(reserved, reserved_bytes)
        raise
    end = address + -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    for begin, stop in ((reserved, address), (end, reserved + reserved_bytes)):
        if begin < stop:
            libc.munmap(begin, stop - begin)
    memory = (ctypes.c_uint8 * size_bytes).from_address(address)
    weakref.finalize(memory, libc.munmap, address, size_bytes).atexit = False
    return np.ctypeslib.as_array(memory)


def _check(address: int | None) -> int:
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"mmap: {os.strerror(number)}")
    return address


def _find_libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
