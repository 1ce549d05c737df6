"""A file written past the page cache, as a service that keeps matrices should write it."""

import errno
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PIECE_BYTES: Final = 4 * 2**20
"""Bytes of a write; chosen."""

BLOCK_BYTES: Final = 4096
"""Addresses, lengths and offsets of writes are multiples of this."""


@contextmanager
def open_direct(path: Path) -> Iterator[int]:
    """Open a new file, with O_DIRECT if the file system knows it.

    Yields:
        Its descriptor. File and name are durable when the block has ended.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        file = os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        file = os.open(path, flags)
    try:
        yield file
        os.fsync(file)
    finally:
        os.close(file)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_piece(file: int, piece: memoryview, size_bytes: int, offset: int) -> None:
    """Write a piece's first bytes, rounded up to whole blocks."""
    rest = piece[: -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES]
    while rest:
        count = os.pwrite(file, rest, offset)
        rest, offset = rest[count:], offset + count


def make_piece() -> memoryview:
    """Aligned memory for a piece, its pages made."""
    memory = mmap.mmap(-1, PIECE_BYTES)
    memory.write(os.urandom(BLOCK_BYTES) * (PIECE_BYTES // BLOCK_BYTES))
    return memoryview(memory)


def time_write(folder: Path, size_bytes: int) -> float:
    """Seconds to write a new file of this length, piece by piece, and to make it durable."""
    piece, path = make_piece(), folder / "written"
    began = time.perf_counter()
    with open_direct(path) as file:
        for offset in range(0, size_bytes, PIECE_BYTES):
            write_piece(file, piece, min(PIECE_BYTES, size_bytes - offset), offset)
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds
