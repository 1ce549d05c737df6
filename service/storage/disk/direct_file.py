"""A new file that is written past the page cache, in pieces that come in any order.

With O_DIRECT the disk reads the caller's memory itself. File offset, address and length must then
be multiples of 4096. Parts of blocks are collected until the block is whole; the last block, which
rarely is, is written without O_DIRECT. So is everything if the file system does not support it.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import numpy as np

from wavetrim.service.storage.disk.growth import find_next_length
from wavetrim.service.storage.disk.new_file import write_whole

Extending = Callable[[int], AbstractContextManager[None]]
"""Takes room for a file of this length; the file is made as long within the block."""

BLOCK_BYTES: Final = 4096
CHUNK_BYTES: Final = 4 * 2**20
"""Bytes that are written at a time; chosen."""


class DirectFile:
    """One file, whose disk blocks are taken before they are written. To be used by one thread.

    Args:
        path: The file; must not exist.
        size_bytes: Its length.
        bounce: Memory of `CHUNK_BYTES` at a multiple of 4096, through which unaligned bytes go.
        step_aside: Called before each chunk.
        extending: Takes room for a new length each time that the file grows; None to take all disk
            blocks at once.

    Raises:
        OSError: It exists already, or there is no room; then no file is left.
    """

    def __init__(
        self,
        path: Path,
        size_bytes: int,
        bounce: mmap.mmap,
        step_aside: Callable[[], object],
        *,
        extending: Extending | None = None,
    ) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._bounce = bounce
        self._step_aside = step_aside
        self._extending = extending
        self._made_bytes = 0
        self._edges: dict[int, tuple[bytearray, int]] = {}
        self._file, self.direct = _create(path)
        if extending is None:
            try:
                self._take_blocks(size_bytes)
            except BaseException:
                self.remove()
                raise

    def write(self, offset: int, view: memoryview) -> None:
        """Writes bytes at an offset; the memory is no longer needed when it returns.

        No byte of the file may be written twice.

        Raises:
            OSError: It cannot be written, or there is no room.
            StorageFull: `extending` has no room.
        """
        end = offset + len(view)
        if self._extending is not None and end > self._made_bytes:
            length = find_next_length(self._made_bytes, end, self._size_bytes)
            with self._extending(length):
                self._take_blocks(length)
        first = min(_round_up(offset), end)
        last = max(end // BLOCK_BYTES * BLOCK_BYTES, first)
        if first > offset:
            self._add_edge(offset, view[: first - offset])
        for begin in range(first, last, CHUNK_BYTES):
            self._write_chunk(begin, view[begin - offset : min(begin + CHUNK_BYTES, last) - offset])
        if end > last:
            self._add_edge(last, view[last - offset :])

    def sync(self) -> None:
        """Writes the last block and makes the file durable.

        Raises:
            OSError: It cannot be written, or another file has taken its name.
        """
        self._stop_direct()
        for block, (content, filled) in self._edges.items():
            begin = block * BLOCK_BYTES
            if begin + filled != self._size_bytes:
                raise OSError(errno.EIO, f"bytes behind {begin} were not written", str(self._path))
            write_whole(self._file, memoryview(content)[:filled], begin)
        self._edges.clear()
        os.fsync(self._file)
        if not os.path.samestat(os.fstat(self._file), self._path.lstat()):
            raise OSError(errno.ESTALE, "another file has taken its place", str(self._path))

    def close(self) -> None:
        """Closes the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def remove(self) -> None:
        """Closes and removes the file."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _take_blocks(self, length: int) -> None:
        os.posix_fallocate(self._file, self._made_bytes, length - self._made_bytes)
        self._made_bytes = length

    def _write_chunk(self, offset: int, view: memoryview) -> None:
        self._step_aside()
        if self.direct and _find_address(view) % BLOCK_BYTES:
            self._bounce[: len(view)] = view
            view = memoryview(self._bounce)[: len(view)]
        try:
            write_whole(self._file, view, offset)
        except OSError as error:
            if error.errno != errno.EINVAL or not self.direct:
                raise
            self._stop_direct()  # this disk needs larger blocks
            write_whole(self._file, view, offset)

    def _add_edge(self, offset: int, view: memoryview) -> None:
        """Keep a part of a block; write the block when it is whole."""
        block, place = divmod(offset, BLOCK_BYTES)
        content, filled = self._edges.pop(block, (bytearray(BLOCK_BYTES), 0))
        content[place : place + len(view)] = view
        filled += len(view)
        if filled < BLOCK_BYTES:
            self._edges[block] = content, filled
        else:
            self._write_chunk(block * BLOCK_BYTES, memoryview(content))

    def _stop_direct(self) -> None:
        if self.direct:
            flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            self.direct = False


def _create(path: Path) -> tuple[int, bool]:
    """Make a file; returns it, and whether it supports O_DIRECT."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    path.unlink(missing_ok=True)  # the system makes the file before it refuses the flag
    return os.open(path, flags, 0o600), False


def _find_address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def _round_up(offset: int) -> int:
    return -(-offset // BLOCK_BYTES) * BLOCK_BYTES
