"""New files of a known length, and files made safe against a power cut."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
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
