"""New files of a known length, and files made safe against a power cut."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a system says that has no place for a file."""

_THIS_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No other one over a link; and no waiting for the other end of a pipe."""


def make_file(path: Path, size_bytes: int) -> None:
    """Make a file of zeros whose blocks on the disk are taken; nobody else may read it.

    Raises:
        OSError: It is there already, or there is no room; then there is no file.
    """
    make_empty(path)
    try:
        with open_for_writing(path) as file:
            # Blocks are taken now: a full disk is met here, not by the engine in a mapped page.
            os.posix_fallocate(file, 0, size_bytes)
    except BaseException:
        path.unlink()
        raise


def make_empty(path: Path, length_bytes: int = 0) -> None:
    """Make a file without blocks on the disk; nobody else may read it.

    Raises:
        OSError: It is there already.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, length_bytes)
    finally:
        os.close(file)


@contextmanager
def open_for_writing(path: Path) -> Iterator[int]:
    """The descriptor of a file that is there, for a block.

    Raises:
        OSError: It cannot be written, or is a link or a pipe.
    """
    file = os.open(path, os.O_WRONLY | _THIS_FILE)
    try:
        yield file
    finally:
        os.close(file)


def write_whole(file: int, view: memoryview, offset: int) -> None:
    """Write all bytes at an offset: the kernel takes less only at its own limits."""
    while view:
        count = os.pwrite(file, view, offset)
        view, offset = view[count:], offset + count


def flush(path: Path) -> None:
    """Have a file, or the names in a folder, outlive a power cut.

    Raises:
        OSError: It cannot be synced, or is a link or a pipe.
    """
    file = os.open(path, os.O_RDONLY | _THIS_FILE)
    try:
        os.fsync(file)
    finally:
        os.close(file)
