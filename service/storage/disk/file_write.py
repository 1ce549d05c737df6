"""A file that is written in pieces, in any order, and durable when it is finished.

Whole pages go past the system's cache (O_DIRECT), if they lie in memory as in the file: the disk
then reads the caller's memory itself. The rest goes through the cache. Small files have a way of
their own (`unsynced_files`).

The caller keeps the memory of all pieces until `finish` is done: after a failed sync it is not
known what the disk holds, so the whole file is written once more before the error is reported.
"""

import errno
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from wavetrim.service.storage.disk.checksum import combine
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.disk.files import (
    THIS_FILE,
    allocate,
    flush,
    write_whole,
)
from wavetrim.service.storage.memory.extent import PAGE_BYTES

T = TypeVar("T")

logger = logging.getLogger(__name__)


class WriteAborted(Exception):
    """The file was given up before this piece was written."""


class FileWrite:
    """One file that is being written by the thread of a `DiskWriter`. Thread-safe.

    Args:
        writer: Does its tasks, in order.
        path: The file; must not exist.
        size_bytes: Its length.
        making: Around its making: counts it, and explains what goes wrong.

    Attributes:
        writer: The writer.
        error: Why the file was given up; None if it was not. `finish` raises it.
    """

    def __init__(
        self,
        writer: DiskWriter,
        path: Path,
        size_bytes: int,
        *,
        making: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self.writer = writer
        self._path = path
        self._size_bytes = size_bytes
        self._making = making
        self._file = self._direct = -1  # descriptors; the second one goes past the cache
        self.error: BaseException | None = None
        self._pieces: dict[int, tuple[memoryview, Future[int]]] = {}
        self._aborted = self._is_ours = False
        self._do(self._make)

    def write(self, offset: int, view: memoryview) -> Future[None]:
        """Has a piece written; blocks while the writer is full.

        Args:
            offset: Where it begins in the file.
            view: The bytes; they must stay as they are until `finish` or `abort` is done.

        Returns:
            Done when the file has the bytes; raises OSError if it does not, WriteAborted if it was
            given up. The bytes are durable only when `finish` is done.
        """
        return self._do(lambda: self._write(offset, view), len(view))

    def finish(self, name: Path | None = None) -> Future[int]:
        """Makes the file durable, under its final name if one is given.

        Returns:
            The CRC-32 of the whole file. Raises OSError if the file cannot be written or not all of
            its bytes were; it is removed then.
        """
        return self._do(lambda: self._finish(name))

    def abort(self) -> Future[None]:
        """Gives the file up and removes it; once the future is done, its memory is not used."""
        self._aborted = True
        return self.writer.add(self._remove)

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

        return self.writer.add(run, size_bytes)

    def _make(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._making(self._size_bytes):
            self._file = os.open(self._path, flags, 0o600)
            self._is_ours = True
            allocate(self._file, self._size_bytes)
        with suppress(OSError):  # some file systems have only their cache
            self._direct = os.open(self._path, os.O_WRONLY | os.O_DIRECT | THIS_FILE)

    def _write(self, offset: int, view: memoryview) -> None:
        self._pieces[offset] = view, self.writer.begin_checksum(view)
        self._write_bytes(offset, view)

    def _write_bytes(self, offset: int, view: memoryview) -> None:
        self.writer.yield_to_commits()
        end = offset + len(view)
        first = -(-offset // PAGE_BYTES) * PAGE_BYTES
        last = max(first, end // PAGE_BYTES * PAGE_BYTES)
        if self._direct < 0 or (_find_address(view) - offset) % PAGE_BYTES:
            first = last = offset
        self._write_cached(offset, view[: first - offset])
        if first < last:
            write_whole(self._direct, view[first - offset : last - offset], first)
        self._write_cached(last, view[last - offset :])

    def _write_cached(self, offset: int, view: memoryview) -> None:
        write_whole(self._file, view, offset)
        if view:
            os.posix_fadvise(self._file, offset, len(view), os.POSIX_FADV_DONTNEED)

    def _sync(self) -> None:
        os.fsync(self._file)
        if not os.path.samestat(os.fstat(self._file), self._path.lstat()):
            raise OSError(errno.ESTALE, "another file has its name now", str(self._path))

    def _finish(self, name: Path | None) -> int:
        crc32 = self._join_checksums()
        try:
            self._sync()
        except OSError as error:
            logger.warning("%s was not synced (%s): it is written anew", self._path, error.strerror)
            self._close()
            self._path.unlink(missing_ok=True)
            self._make()
            for offset, (view, _) in self._pieces.items():
                self._write_bytes(offset, view)
            self._sync()
        self._close()
        if name is not None:
            self._path.rename(name)
            self._path = name
        flush(self._path.parent)
        self._pieces.clear()
        return crc32

    def _join_checksums(self) -> int:
        """The file's checksum from those of its pieces."""
        crc32 = end = 0
        for offset, (view, checksum) in sorted(self._pieces.items()):
            if offset != end:
                raise OSError(f"{self._path}: the bytes from {end} on were written twice or never")
            crc32 = combine(crc32, checksum.result(), len(view))
            end += len(view)
        if end != self._size_bytes:
            raise OSError(f"{self._path}: only {end} of {self._size_bytes} bytes were written")
        return crc32

    def _close(self) -> None:
        for file in (self._file, self._direct):
            if file >= 0:
                os.close(file)
        self._file = self._direct = -1

    def _remove(self) -> None:
        wait(checksum for _, checksum in self._pieces.values())
        self._pieces.clear()
        if self._is_ours:  # otherwise another had made it before
            self._close()
            self._path.unlink(missing_ok=True)


def _find_address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)
