"""Files of a known length: space for them, safe against a power cut, and what went wrong.

A reserve of the file system is for the database and its log. On a full disk they must go on:
matrices can be deleted and jobs cancelled only while the database can be written to.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
