"""Maps shared memory into this process, aligned to huge pages.

A mapping begins at a multiple of 2 MiB and ends with its last view. Python's `mmap` takes no
address, and can be closed while views of it are in use.
"""

import ctypes
import mmap
import os
import weakref
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.execution.pages import HUGE_PAGE_BYTES

_MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value


def map_shared(fd: int, size_bytes: int) -> NDArray[np.uint8]:
    """Map the first bytes of a file, readable and writable, as a vector.

    The descriptor may be closed afterwards. The mapping ends with its last array or memoryview.
    Bytes beyond the end of the file must not be accessed.

    Raises:
        OSError: The system refuses the mapping.
    """
    libc = _find_libc()
    # Reserve more than is mapped, so that an aligned part of it is long enough.
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
