"""Writes matrices from memory to disk while they are received or computed.

    file = FileWrite(writer, matrix.unfinished, matrix.size_bytes)
    file.write(offset, piece)               # as they arrive, in any order
    crc32 = await asyncio.wrap_future(file.finish(name))

One thread writes one piece after the other, while others compute checksums.
"""

import threading
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from wavetrim.cpu.threads import usable_cores
from wavetrim.service.storage.database.write_record import WriteRecord

T = TypeVar("T")

WRITE_BYTES: Final = 4 * 2**20
"""Bytes that are best handed to the thread at a time; chosen."""

MOST_WAITING_BYTES: Final = 256 * 2**20
"""Bytes that may wait for the thread; `write` blocks when there are more. Chosen."""

CHECKSUM_THREADS: Final = 4
"""Threads that compute checksums; chosen: one alone is slower than many disks."""

_YIELD_SECONDS: Final = 0.05
"""Longest time that a piece waits for the database; chosen."""


class DiskWriter:
    """The thread that writes. Thread-safe.

    Args:
        writes: Knows of the database's commits, to which the thread yields.
    """

    def __init__(self, writes: WriteRecord) -> None:
        self._writes = writes
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="disk-writer")
        threads = min(CHECKSUM_THREADS, usable_cores())
        self._checksums = ThreadPoolExecutor(threads, thread_name_prefix="disk-checksum")

    def close(self) -> None:
        """Writes what waits, then ends all threads."""
        self._thread.shutdown()
        self._checksums.shutdown()

    @property
    def is_full(self) -> bool:
        """Whether `write` would block; coroutines check it before they call that."""
        return self._waiting_bytes >= MOST_WAITING_BYTES

    def add(self, task: Callable[[], T], size_bytes: int = 0) -> "Future[T]":
        """Has the thread do a task; blocks while too many bytes wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_full or size_bytes == 0)
            self._waiting_bytes += size_bytes
        done = self._thread.submit(task)
        done.add_done_callback(lambda _: self._note_done(size_bytes))
        return done

    def yield_to_commits(self) -> None:
        """Lets the database's commits go first, for a short time."""
        self._writes.wait(_YIELD_SECONDS)

    def begin_checksum(self, view: memoryview) -> "Future[int]":
        """Begins the checksum of a piece in another thread."""
        return self._checksums.submit(zlib.crc32, view)

    def _note_done(self, size_bytes: int) -> None:
        with self._changed:
            self._waiting_bytes -= size_bytes
            self._changed.notify_all()
