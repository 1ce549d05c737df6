"""Writes matrices from memory to disk, behind whoever receives or computes them.

    file = writer.begin(pending.path, header, pending.size_bytes)
    file.write(len(header), piece)          # as they arrive, in any order
    crc32 = await asyncio.wrap_future(file.finish(name))

One thread writes, one piece after the other, and others compute the checksum of the same piece
meanwhile. All have let go of a piece's memory when its future is done.
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
"""So much may wait for the thread before `write` does, too."""

CHECKSUM_THREADS: Final = 4
"""So many share in the checksum of a piece: one alone is slower than many disks."""

_PART_BYTES: Final = 2**20
"""Of a piece that is shared, each has at least so much."""

_YIELD_SECONDS: Final = 0.05
"""So long at most a chunk waits for the database."""


class DiskWriter:
    """The thread that writes. Thread-safe.

    Args:
        gate: Tells of the database's commits, to which it yields.
        most_waiting_bytes: So much may wait to be written.
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
        self,
        path: Path,
        header: bytes,
        size_bytes: int,
        *,
        keeps_memory: bool = True,
        extending: Extending | None = None,
    ) -> FileWrite:
        """Begins a file.

        Args:
            path: The unfinished file; must not be there.
            header: Its first bytes; none where they are written as the others are. If they are a
                multiple of 4096, elements in memory that begins at one go to the disk without a
                copy.
            size_bytes: Length of the whole file.
            keeps_memory: True if the caller leaves all pieces as they are until `finish` is done.
            extending: Takes room for it as it is written, best from its front to its end; without
                it, it has all its blocks at once.
        """
        return FileWrite(
            self, path, header, size_bytes, keeps_memory=keeps_memory, extending=extending
        )

    def close(self) -> None:
        """Writes what waits, then ends all threads."""
        self._tasks.put(None)
        self._thread.join()
        self._checksums.shutdown()

    @property
    def has_room(self) -> bool:
        """Whether `write` would return at once. A coroutine looks here before it calls it."""
        return self._waiting_bytes < self._most_waiting_bytes

    def add(self, task: Callable[[], None], size_bytes: int = 0) -> None:
        """Has the thread do a task; waits while too many bytes wait already."""
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
        """A new file; to be called by the thread only."""

        def step_aside() -> None:
            self._gate.wait(_YIELD_SECONDS)

        return DirectFile(path, size_bytes, self._bounce, step_aside, extending=extending)

    def begin_checksum(self, view: memoryview) -> Callable[[], int]:
        """Computes a checksum in the other threads; returns what waits for it."""
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
