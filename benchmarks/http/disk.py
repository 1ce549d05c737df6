"""A file written past the page cache, as a service that keeps matrices should write it."""

import errno
import mmap
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PIECE_BYTES: Final = 4 * 2**20
BLOCK_BYTES: Final = 4096


class DirectFile:
    """A new file that takes aligned pieces; O_DIRECT where the file system knows it.

    Args:
        path: Where it is made.

    Attributes:
        is_direct: Whether it goes past the page cache.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._path = path
        self.is_direct = True
        try:
            self._handle = os.open(path, flags | os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self.is_direct = False
            self._handle = os.open(path, flags)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)

    def write(self, piece: memoryview, offset: int) -> None:
        """Write a piece: its memory, length and offset are multiples of BLOCK_BYTES."""
        while piece:
            count = os.pwrite(self._handle, piece, offset)
            piece, offset = piece[count:], offset + count

    def sync(self) -> None:
        """Make the file and its name durable."""
        os.fsync(self._handle)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_piece() -> memoryview:
    """Aligned memory for a piece, its pages made."""
    memory = mmap.mmap(-1, PIECE_BYTES)
    memory.write(os.urandom(BLOCK_BYTES) * (PIECE_BYTES // BLOCK_BYTES))
    return memoryview(memory)


def time_write(folder: Path, size_bytes: int) -> float:
    """Seconds to write so many bytes to a new file there, piece by piece, and to sync it."""
    piece, path = make_piece(), folder / "written"
    began = time.perf_counter()
    with DirectFile(path) as file:
        for offset in range(0, size_bytes, PIECE_BYTES):
            rest = min(PIECE_BYTES, size_bytes - offset)
            file.write(piece[: -(-rest // BLOCK_BYTES) * BLOCK_BYTES], offset)
        file.sync()
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds
