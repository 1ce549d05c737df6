"""New files of a known length, files made safe against a power cut, and what went wrong."""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wavetrim.service.storage.errors import StorageFailed, StorageFull

logger = logging.getLogger(__name__)

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a system that has no room for a file."""

_THIS_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that refuse a link, and do not wait for the other end of a pipe."""


def make_file(path: Path, size_bytes: int) -> None:
    """Make a file of zeros whose disk blocks are taken; only its user may read it.

    Raises:
        OSError: It exists already, or there is no room; then no file is left.
    """
    make_empty(path)
    try:
        with open_for_writing(path) as file:
            # Blocks are taken now: a full disk fails here, and not when the engine touches a page.
            os.posix_fallocate(file, 0, size_bytes)
    except BaseException:
        path.unlink()
        raise


def make_empty(path: Path, length_bytes: int = 0) -> None:
    """Make a file without disk blocks; only its user may read it.

    Raises:
        OSError: It exists already.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, length_bytes)
    finally:
        os.close(file)


@contextmanager
def open_for_writing(path: Path) -> Iterator[int]:
    """The descriptor of an existing file, closed at the end.

    Raises:
        OSError: It cannot be written, or is a link or a pipe.
    """
    file = os.open(path, os.O_WRONLY | _THIS_FILE)
    try:
        yield file
    finally:
        os.close(file)


def write_whole(file: int, view: memoryview, offset: int) -> None:
    """Write all bytes at an offset, even if the kernel takes fewer at a time."""
    while view:
        count = os.pwrite(file, view, offset)
        view, offset = view[count:], offset + count


def flush(path: Path) -> None:
    """Make a file, or the names in a folder, safe against a power cut.

    Raises:
        OSError: It cannot be synced, or is a link or a pipe.
    """
    file = os.open(path, os.O_RDONLY | _THIS_FILE)
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
    if error.errno in _NO_ROOM:
        limit = f"within what {folder} has room for ({error.strerror})"
        return StorageFull("matrix size", size_bytes, limit)
    logger.error("%s cannot be written to: %s", folder, error)
    return StorageFailed(folder, error.strerror or str(error))
