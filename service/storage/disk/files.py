"""Files of a known length: space for them, safe against a power cut, and what went wrong with them.

A reserve of the file system is for the database and its log. On a full disk they must go on:
matrices can be deleted and jobs cancelled only while the database can be written to.

Whether a stored matrix was changed is known by its CRC-32, that of zlib, gzip and PNG. `combine`
joins those of pieces, which may have been written in any order.
"""

import errno
import logging
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from wavetrim.service.storage.errors import StorageFailed, StorageFull

logger = logging.getLogger(__name__)

RESERVE_BYTES: Final = 64 * 2**20
"""Space that must stay free on the file system of the matrices; chosen."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a system that has no space for a file."""

THIS_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that refuse a link, and do not wait for the other end of a pipe."""

PIECE_BYTES: Final = 2 * 2**20
"""Bytes of a file that are read at a time; chosen."""

_POLYNOMIAL: Final = 0xEDB8_8320
"""The generator, its lowest power in the highest bit."""


def measure_disk(folder: Path) -> dict[str, int]:
    """How full the file system of a folder is, by the names that `/v1/devices` documents."""
    found = os.statvfs(folder)
    return {
        "size_bytes": found.f_blocks * found.f_frsize,
        "used_bytes": (found.f_blocks - found.f_bfree) * found.f_frsize,
        "free_bytes": max(0, count_usable_bytes(folder)),
    }


def count_usable_bytes(folder: Path) -> int:
    """Bytes that new files in a folder may take; negative when the reserve is in use."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize - RESERVE_BYTES


def require_space(folder: Path, size_bytes: int) -> None:
    """Make sure that there is space for a file.

    Args:
        folder: Where it will be.
        size_bytes: Its length.

    Raises:
        StorageFull: The file system has too little left.
        StorageFailed: The folder is away.
    """
    try:
        usable_bytes = count_usable_bytes(folder)
    except OSError as error:
        raise explain(error, folder, size_bytes) from error
    if size_bytes > usable_bytes:
        limit = (
            f"at most the {max(usable_bytes, 0)} bytes that {folder} has free beside the "
            f"reserve of {RESERVE_BYTES}"
        )
        raise StorageFull("matrix size", size_bytes, limit)


@contextmanager
def making(folder: Path, size_bytes: int) -> Iterator[None]:
    """Have a file made in the block, with all of its space (`allocate`).

    Raises:
        StorageFull: The file system has too little left.
        StorageFailed: The file cannot be made.
    """
    require_space(folder, size_bytes)
    try:
        yield
    except OSError as error:
        raise explain(error, folder, size_bytes) from error


def allocate(file: int, size_bytes: int) -> None:
    """Give a new file its length and all of its space: later nobody can take that from it."""
    os.posix_fallocate(file, 0, size_bytes)


def write_whole(file: int, view: memoryview, offset: int) -> None:
    """Write all bytes at an offset, even if the kernel takes fewer at a time."""
    while view:
        count = os.pwrite(file, view, offset)
        view, offset = view[count:], offset + count


def flush(path: Path) -> None:
    """Make a file, or the names in a folder, safe against a power cut.

    Raises:
        OSError: It cannot be synced, or is a pipe, or a link to no folder.
    """
    file = os.open(path, os.O_RDONLY | (os.O_DIRECTORY if path.is_dir() else THIS_FILE))
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove(path: Path) -> None:
    """Remove a file, if it is there; one that the system does not remove is left to a start."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s cannot be removed: %s", path, error.strerror)


def explain(error: OSError, folder: Path, size_bytes: int) -> Exception:
    """The error for the caller whose matrix could not be written.

    Args:
        error: Why; one that does not come from the system is returned as it is.
        folder: Where the matrix was written.
        size_bytes: Bytes of its file.
    """
    if error.errno is None:
        return error
    if error.errno in _FULL:
        limit = f"within what {folder} has room for ({error.strerror})"
        return StorageFull("matrix size", size_bytes, limit)
    logger.error("%s cannot be written to: %s", folder, error)
    return StorageFailed(folder, error.strerror or str(error))


class NotRegular(OSError):
    """A path is not that of a regular file, but of a link, a folder or a device."""


def open_regular(path: Path) -> int:
    """Opens a file for reading, if it is a regular one; links are not followed.

    Returns:
        Its descriptor.

    Raises:
        FileNotFoundError: There is none.
        NotRegular: It is a link, a folder or a device.
    """
    try:
        file = os.open(path, os.O_RDONLY | THIS_FILE)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise NotRegular(error.errno, "it is a link", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegular(0, "it is no regular file", str(path))
    return file


def compute_crc32(file: int, size_bytes: int, view: memoryview | None = None) -> int | None:
    """The checksum of an open file, which is read into memory if there is a view of its size.

    Returns:
        None if the file has another length.
    """
    if os.fstat(file).st_size != size_bytes:
        return None
    crc32 = offset = 0
    buffer = memoryview(bytearray(min(PIECE_BYTES, size_bytes))) if view is None else view
    while offset < size_bytes:
        begin = 0 if view is None else offset
        piece = buffer[begin : begin + min(PIECE_BYTES, size_bytes - offset)]
        count = os.preadv(file, [piece], offset)
        if count == 0:
            return None
        crc32 = zlib.crc32(piece[:count], crc32)
        offset += count
    return crc32


def combine(first: int, second: int, second_bytes: int) -> int:
    """The checksum of two pieces, one after the other, from the checksum of each."""
    return _multiply(_shift(second_bytes), first) ^ second


@lru_cache(256)
def _shift(count_bytes: int) -> int:
    """The polynomial x to the power of `8 * count_bytes`, modulo the generator."""
    product, square = 1 << 31, 1 << 23  # x^0, and x^8: one byte
    while count_bytes:
        if count_bytes & 1:
            product = _multiply(square, product)
        square = _multiply(square, square)
        count_bytes >>= 1
    return product


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo the generator."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
