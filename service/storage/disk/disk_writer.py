"""Writes matrices from memory to disk while they are received or computed.

    file = writer.begin(pending.path, pending.size_bytes)
    file.write(offset, piece)               # as they arrive, in any order
    crc32 = await asyncio.wrap_future(file.finish(name))

One thread writes one piece after the other, while others compute that piece's checksum.
"""

import mmap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.service.storage.disk.checksum import combine, update_crc32
from wavetrim.service.storage.disk.commit_gate import CommitGate
from wavetrim.service.storage.disk.direct_file import CHUNK_BYTES, DirectFile, Extending
from wavetrim.service.storage.disk.file_write import FileWrite

MOST_WAITING_BYTES: Final = 256 * 2**20
"""Bytes that may wait for the thread; `write` blocks when there are more. Chosen."""

CHECKSUM_THREADS: Final = 4
"""Threads that share the checksum of a piece; chosen: one alone is slower than many disks."""

_PART_BYTES: Final = 2**20
"""Bytes of a piece for each checksum task; chosen."""

_YIELD_SECONDS: Final = 0.05
"""Longest time that a chunk waits for the database; chosen."""


class DiskWriter:
    """The thread that writes. Thread-safe.

    Args:
        gate: Knows of the database's commits, to which the thread yields.
        most_waiting_bytes: Bytes that may wait to be written.
    """

    def __init__(
        self, *, gate: CommitGate | None = None, most_waiting_bytes: int = MOST_WAITING_BYTES
    ) -> None:
        self._gate = gate or CommitGate()
        self._most_waiting_bytes = most_waiting_bytes
        self._waiting_bytes = 0
        self._room = threading.Condition()
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._bounce = mmap.mmap(-1, CHUNK_BYTES)
        threads = min(CHECKSUM_THREADS, usable_cores())
        self._checksums = ThreadPoolExecutor(threads, thread_name_prefix="disk-checksum")
        self._thread = threading.Thread(target=self._run, name="disk-writer", daemon=True)
        self._thread.start()

    def begin(
        self, path: Path, size_bytes: int, *, extending: Extending | None = None
    ) -> FileWrite:
        """Begins a file.

        Args:
            path: The unfinished file; must not exist.
            size_bytes: Length of the whole file.
            extending: Takes room for the file as it is written, best from its beginning to its end;
                None to take all disk blocks at once.
        """
        return FileWrite(self, path, size_bytes, extending=extending)

    def close(self) -> None:
        """Writes what waits, then ends all threads."""
        self._tasks.put(None)
        self._thread.join()
        self._checksums.shutdown()

    @property
    def has_room(self) -> bool:
        """Whether `write` would return at once; coroutines check it before they call that."""
        return self._waiting_bytes < self._most_waiting_bytes

    def add(self, task: Callable[[], None], size_bytes: int = 0) -> None:
        """Has the thread do a task; blocks while too many bytes wait."""
        with self._room:
            self._room.wait_for(lambda: self.has_room or size_bytes == 0)
            self._waiting_bytes += size_bytes

        def run() -> None:
            try:
                task()
            finally:
                with self._room:
                    self._waiting_bytes -= size_bytes
                    self._room.notify_all()

        self._tasks.put(run)

    def make_file(self, path: Path, size_bytes: int, extending: Extending | None) -> DirectFile:
        """A new file; to be called only in the thread."""

        def step_aside() -> None:
            self._gate.wait(_YIELD_SECONDS)

        return DirectFile(path, size_bytes, self._bounce, step_aside, extending=extending)

    def begin_checksum(self, view: memoryview) -> Callable[[], int]:
        """Begins a checksum in the other threads; returns a function that waits for it."""
        parts = [view[first : first + _PART_BYTES] for first in range(0, len(view), _PART_BYTES)]
        begun = [(self._checksums.submit(update_crc32, part), len(part)) for part in parts]

        def join() -> int:
            crc32 = 0
            for future, length in begun:
                crc32 = combine(crc32, future.result(), length)
            return crc32

        return join

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
