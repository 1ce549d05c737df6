"""A lock between processes: a file that one of them has locked, with its name in it.

The lock ends with the process, however that ends.
"""

import fcntl
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path


class LockTaken(Exception):
    """Another process has the lock; the message names it."""


def describe_process() -> str:
    """This process, in words for others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def describe_service(data_dir: Path) -> str:
    """The service with a data folder that this process is, or wants to be."""
    return f"{describe_process()} with the data folder {data_dir.absolute()}"


def take_lock(path: Path, holder: str) -> int:
    """Locks a file, which is made if it is missing.

    Args:
        path: The file.
        holder: This process, in words for others.

    Returns:
        Its descriptor; to close it gives the lock back.

    Raises:
        LockTaken: Another process has locked it.
        OSError: It cannot be made or locked.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        other = os.pread(file, 1000, 0).decode(errors="replace")
        os.close(file)
        if isinstance(error, BlockingIOError):
            raise LockTaken(other or "a process that has not given its name") from error
        raise
    since = datetime.now(UTC).isoformat(timespec="seconds")
    with suppress(OSError):  # such as a full disk: the name is for people only
        os.ftruncate(file, 0)
        os.pwrite(file, f"{holder} since {since}".encode(), 0)
    return file
