"""Writes matrices from memory to disk while they are received or computed.

    file = FileWrite(writer, matrix.unfinished, view, making=making)
    file.write(piece)                       # each when its bytes are final, in any order
    crc32 = await asyncio.wrap_future(file.finish(name))

One thread writes one piece after the other, while others compute checksums. Whole pages go past the
system's cache (O_DIRECT): the disk then reads the memory itself. Small files have a way of their
own (`unsynced_files`).

The memory stays as it is until `finish` is done: after a failed sync it is not known what the disk
holds, so the whole file is written once more before the error is reported.
"""

import errno
import logging
import os
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, TypeVar

from wavetrim.cpu.threads import usable_cores
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.disk.files import THIS_FILE, allocate, combine, flush, write_whole
from wavetrim.service.storage.memory.extent import PAGE_BYTES

T = TypeVar("T")

logger = logging.getLogger(__name__)

WRITE_BYTES: Final = 4 * 2**20
"""Bytes of a piece; chosen."""

_MOST_WAITING_BYTES: Final = 256 * 2**20
"""Bytes that should wait for the thread at most: others wait behind them. Chosen."""

_CHECKSUM_THREADS: Final = 4
"""Threads that compute checksums; chosen: one alone is slower than many disks."""

_YIELD_SECONDS: Final = 0.05
"""Longest time that a piece waits for the database; chosen."""


class DiskWriter:
    """The thread that writes. Thread-safe.

    Args:
        commits: The database's, to which the thread yields.

    Attributes:
        commits: As given.
        checksums: Threads that compute checksums.
    """

    def __init__(self, commits: SharedCommits) -> None:
        self.commits = commits
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="disk-writer")
        threads = min(_CHECKSUM_THREADS, usable_cores())
        self.checksums = ThreadPoolExecutor(threads, thread_name_prefix="disk-checksum")

    def close(self) -> None:
        """Writes what waits, then ends all threads."""
        self._thread.shutdown()
        self.checksums.shutdown()

    @property
    def is_full(self) -> bool:
        """Whether so much waits that who can should come again later."""
        return self._waiting_bytes >= _MOST_WAITING_BYTES

    def add(self, task: Callable[[], T], size_bytes: int = 0) -> "Future[T]":
        """Has the thread do a task that writes bytes."""
        self._count(size_bytes)
        done = self._thread.submit(task)
        done.add_done_callback(lambda _: self._count(-size_bytes))
        return done

    def _count(self, size_bytes: int) -> None:
        with self._lock:
            self._waiting_bytes += size_bytes


class WriteAborted(Exception):
    """The file was given up before this piece was written."""


class FileWrite:
    """One file that is being written in pieces of `WRITE_BYTES`. Thread-safe.

    Args:
        writer: Does its tasks, in order.
        path: The file; must not exist.
        view: All of its bytes, at a multiple of `PAGE_BYTES` in memory.
        making: Around its making: counts it, and explains what goes wrong.

    Attributes:
        error: Why the file was given up; None if it was not. `finish` raises it.
        piece_count: How many pieces it has.
    """

    def __init__(
        self,
        writer: DiskWriter,
        path: Path,
        view: memoryview,
        making: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        self.error: BaseException | None = None
        self.piece_count = -(-len(view) // WRITE_BYTES)
        self._writer = writer
        self._path = path
        self._view = view
        self._making = making
        self._file = self._direct = -1  # descriptors; the second one goes past the cache
        self._written: dict[int, Future[None]] = {}
        self._checksums: dict[int, Future[int]] = {}
        self._aborted = False
        self._do(self._make)

    @property
    def is_begun(self) -> bool:
        """Whether a piece was written, or waits."""
        return bool(self._written)

    def write(self, piece: int) -> Future[None]:
        """Has a piece written that is final, once.

        Returns:
            Done when the file has the bytes; raises OSError if it does not, WriteAborted if it was
            given up. The bytes are durable only when `finish` is done.
        """
        if piece not in self._written:
            task, size_bytes = lambda: self._write(piece), len(self._find_bytes(piece))
            self._written[piece] = self._do(task, size_bytes)
        return self._written[piece]

    def finish(self, name: Path) -> Future[int]:
        """Makes the file, all of whose pieces were written, durable under its final name.

        Returns:
            The CRC-32 of the whole file. Raises OSError if the file cannot be written; it is
            removed then.
        """
        return self._do(lambda: self._finish(name))

    def abort(self) -> Future[None]:
        """Gives the file up and removes it; once the future is done, its memory is not used."""
        self._aborted = True
        return self._writer.add(self._remove)

    def _do(self, task: Callable[[], T], size_bytes: int = 0) -> "Future[T]":
        """Have the thread do a task, unless the file has failed or was given up before."""

        def run() -> T:
            if self._aborted:
                raise WriteAborted(str(self._path))
            if self.error is not None:
                raise self.error
            try:
                return task()
            except BaseException as error:
                self.error = error
                self._remove()
                raise

        return self._writer.add(run, size_bytes)

    def _make(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._making(len(self._view)):
            self._file = os.open(self._path, flags, 0o600)
            allocate(self._file, len(self._view))
        with suppress(OSError):  # some file systems have only their cache
            self._direct = os.open(self._path, os.O_WRONLY | os.O_DIRECT | THIS_FILE)

    def _find_bytes(self, piece: int) -> memoryview:
        return self._view[piece * WRITE_BYTES : (piece + 1) * WRITE_BYTES]

    def _write(self, piece: int) -> None:
        view = self._find_bytes(piece)
        self._checksums[piece] = self._writer.checksums.submit(zlib.crc32, view)
        self._write_bytes(piece)

    def _write_bytes(self, piece: int) -> None:
        self._writer.commits.wait_idle(_YIELD_SECONDS)
        view, offset = self._find_bytes(piece), piece * WRITE_BYTES
        if self._direct >= 0:
            page_bytes = len(view) - len(view) % PAGE_BYTES
            write_whole(self._direct, view[:page_bytes], offset)
            view, offset = view[page_bytes:], offset + page_bytes
        write_whole(self._file, view, offset)
        if view:
            os.posix_fadvise(self._file, offset, len(view), os.POSIX_FADV_DONTNEED)

    def _sync(self) -> None:
        os.fsync(self._file)
        if not os.path.samestat(os.fstat(self._file), self._path.lstat()):
            raise OSError(errno.ESTALE, "another file has its name now", str(self._path))

    def _finish(self, name: Path) -> int:
        crc32 = 0
        for piece in range(self.piece_count):
            checksum, size_bytes = self._checksums[piece].result(), len(self._find_bytes(piece))
            crc32 = combine(crc32, checksum, size_bytes)
        try:
            self._sync()
        except OSError as error:
            logger.warning("%s was not synced (%s): it is written anew", self._path, error.strerror)
            self._close()
            self._path.unlink(missing_ok=True)
            self._make()
            for piece in range(self.piece_count):
                self._write_bytes(piece)
            self._sync()
        self._close()
        self._path.rename(name)
        self._path = name
        flush(name.parent)
        return crc32

    def _close(self) -> None:
        for file in (self._file, self._direct):
            if file >= 0:
                os.close(file)
        self._file = self._direct = -1

    def _remove(self) -> None:
        wait(self._checksums.values())
        self._close()
        self._path.unlink(missing_ok=True)
