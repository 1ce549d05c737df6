"""New files of a known length, and files made safe against a power cut."""

import errno
import os
from pathlib import Path
from typing import Final

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a system says that has no place for a file."""


def make_file(path: Path, size_bytes: int) -> None:
    """Make a file of zeros whose blocks on the disk are taken; nobody else may read it.

    Raises:
        OSError: It is there already, or there is no room; then there is no file.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Blocks are taken now: a full disk is met here, not by the engine in a mapped page.
        os.posix_fallocate(file, 0, size_bytes)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(file)


def write_start(path: Path, header: bytes) -> None:
    """Write the first bytes of a file that is there."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(file, header, 0)
    finally:
        os.close(file)


def flush(path: Path) -> None:
    """Have a file, or the names in a folder, outlive a power cut."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
