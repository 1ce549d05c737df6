"""Files that several processes read and write: replaced as a whole, one writer after the other."""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, so that nobody else writes between reading and replacing it.

    The lock is a file beside it, because its own file is another one after each write.

    Raises:
        OSError: The lock cannot be made.
    """
    # Also another user may take the lock: that needs no right to write.
    flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
    lock = os.open(path.with_suffix(".lock"), flags, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a process forked meanwhile has the file open, too
    finally:
        os.close(lock)


def replace_text(path: Path, text: str) -> None:
    """Write a file such that readers see the old or the new text, and a new time of change.

    Raises:
        OSError: It cannot be written; the old text is still there.
    """
    # Process ids do not differ between containers, nor between threads.
    part = path.with_suffix(f".{uuid.uuid4().hex}.part")
    try:
        part.write_text(text, encoding="utf-8")
        now = time.time_ns()
        os.utime(part, ns=(now, now))  # the kernel's own is the same for some milliseconds
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
