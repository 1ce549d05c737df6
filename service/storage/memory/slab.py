"""One piece of the arena: a sealed memfd, mapped, all of its pages made; and how large it is.

A slab is one registration with CUDA, so a matrix lies within one.
"""

import ctypes
import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.threads import usable_cores
from wavetrim.scheduler.execution.pages import (
    HUGE_PAGE_BYTES,
    cut_range,
    map_shared,
    populate_range,
    touch_range,
)
from wavetrim.service.errors import ServiceError

logger = logging.getLogger(__name__)

USUAL_BYTES: Final = 2**30 + HUGE_PAGE_BYTES
"""A slab of a large arena: in smaller ones large matrices often find no range; chosen. The huge
page has the headers of its matrices: without it, a second one of 512 MiB would find no range."""

SMALL_USUAL_BYTES: Final = 2**28 + HUGE_PAGE_BYTES
"""A slab of a small arena; chosen: on a small machine the first one must be made quickly, and one
that is made ahead must leave memory to others."""

SMALL_ARENA_BYTES: Final = 2**33
"""An arena below this is small, by default on machines with less than 32 GiB; chosen."""

LARGEST_BYTES: Final = 512 * 2**30 - HUGE_PAGE_BYTES
"""CUDA registers less than 512 GiB at once."""

_STEP_BYTES: Final = 128 * 2**20
"""Bytes that are made before the limits are read again: about 0.1 s of one thread's work."""

_MOST_THREADS: Final = 8
"""The most threads that make pages; chosen."""

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_MFD_NOEXEC_SEAL: Final = 8  # Linux 6.3: never executable
_PUNCH_HOLE: Final = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


class NoMemory(ServiceError):
    """A slab would take more memory than may be taken."""

    def __init__(self, wanted_bytes: int, left_bytes: int) -> None:
        super().__init__(
            f"slab is {wanted_bytes} bytes; it must be at most {left_bytes}, the memory that may "
            "still be taken"
        )


class Slab:
    """Shared memory of a fixed size, with all its pages: `make_slab` makes it.

    Its address is a multiple of 2 MiB. It is sealed: it can neither shrink nor grow while others
    map it. The mapping ends with its last view, so that a forgotten view never crashes.

    Attributes:
        id: Its number, never used again.
        fd: Descriptor of the memfd, which is passed to the engine.
        size_bytes: Its length.
        address: Where it is mapped in this process.
        view: All of its bytes.
        locked: Whether the engine has page-locked all of it. Set by `engine.slabs`.
        used_at: When an extent in it was freed last, or it was made, by the monotonic clock.
    """

    __slots__ = ("address", "fd", "id", "locked", "size_bytes", "used_at", "view")

    def __init__(self, number: int, fd: int, memory: NDArray[np.uint8]) -> None:
        self.id = number
        self.fd = fd
        self.size_bytes = memory.nbytes
        self.address = memory.ctypes.data
        self.view = memory.data
        self.locked = False
        self.used_at = time.monotonic()

    def punch(self) -> None:
        """Give the memory back to the system at once; views that are left read zeros.

        To be called only when no other process maps it or has it page-locked: otherwise transfers
        would go to pages that no longer belong to it, without an error. Blocks: about 0.2 s a GiB.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        offset, length = ctypes.c_long(0), ctypes.c_long(self.size_bytes)
        if libc.fallocate(self.fd, _PUNCH_HOLE, offset, length):
            logger.warning("slab %d: %s", self.id, os.strerror(ctypes.get_errno()))

    def close(self) -> None:
        """Let go of descriptor and mapping; the memory is freed once nobody has either."""
        os.close(self.fd)
        self.fd = -1
        self.view = memoryview(b"")


def round_up(size_bytes: int) -> int:
    """The least multiple of 2 MiB, as slabs are, that is at least `size_bytes`."""
    return -(-size_bytes // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES


def round_down(size_bytes: int) -> int:
    """The largest multiple of 2 MiB that is at most `size_bytes`."""
    return size_bytes - size_bytes % HUGE_PAGE_BYTES


def find_usual_bytes(limit_bytes: int) -> int:
    """The size of a slab in an arena of this size."""
    return USUAL_BYTES if limit_bytes >= SMALL_ARENA_BYTES else SMALL_USUAL_BYTES


def make_slab(number: int, size_bytes: int, memory_left: Callable[[], int]) -> Slab:
    """Make a slab and all of its pages. Blocks: about half a second a GiB.

    A process that makes pages past a control group's limit is killed. So the memory left is read
    before each step, and must suffice for all pages that are still to be made.

    Args:
        number: Its id.
        size_bytes: Its size, a multiple of 2 MiB.
        memory_left: Memory that may still be taken, in bytes.

    Raises:
        NoMemory: It would take more memory than it may; what was made is given back.
        OSError: The system refuses it.
    """
    fd = _make_sealed(size_bytes)
    try:
        memory = map_shared(fd, size_bytes)
        address = memory.ctypes.data
        threads = min(_MOST_THREADS, usable_cores())
        with ThreadPoolExecutor(threads, thread_name_prefix="slab") as pool:
            for offset in range(0, size_bytes, _STEP_BYTES):
                rest_bytes = size_bytes - offset
                _require_memory(memory_left(), rest_bytes)
                pieces = cut_range(address + offset, min(_STEP_BYTES, rest_bytes))
                list(pool.map(_make_pages, pieces))
    except BaseException:
        os.close(fd)
        raise
    return Slab(number, fd, memory)


def _require_memory(memory_left_bytes: int, wanted_bytes: int) -> None:
    if memory_left_bytes < wanted_bytes:
        raise NoMemory(wanted_bytes, memory_left_bytes)


def _make_sealed(size_bytes: int) -> int:
    assert size_bytes % HUGE_PAGE_BYTES == 0
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create("wavetrim-arena", flags | _MFD_NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fd = os.memfd_create("wavetrim-arena", flags)
    try:
        os.ftruncate(fd, size_bytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make_pages(piece: tuple[int, int]) -> None:
    begin, end = piece
    if not populate_range(begin, end):
        touch_range(begin, end)
