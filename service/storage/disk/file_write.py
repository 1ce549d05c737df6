"""A file that is written in pieces, in any order, and durable when it is finished.

The caller keeps the memory of all pieces until `finish` is done: after a failed sync it is not
known what the disk holds, so the whole file is written once more before the error is reported.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wavetrim.service.storage.disk.checksum import combine
from wavetrim.service.storage.disk.direct_file import DirectFile, Extending
from wavetrim.service.storage.disk.new_file import flush

if TYPE_CHECKING:
    from wavetrim.service.storage.disk.disk_writer import DiskWriter

T = TypeVar("T")
logger = logging.getLogger(__name__)


class WriteAborted(Exception):
    """The file was given up before this piece was written."""


class FileWrite:
    """One file that is being written. Thread-safe.

    Attributes:
        made: Done when the file is made, with its blocks unless it takes them as it is written, or
            when that has failed.
    """

    def __init__(
        self,
        writer: "DiskWriter",
        path: Path,
        size_bytes: int,
        *,
        extending: Extending | None,
    ) -> None:
        self._writer = writer
        self._path = path
        self._size_bytes = size_bytes
        self._extending = extending
        self._file: DirectFile | None = None
        self._error: BaseException | None = None
        self._checksums: dict[int, tuple[int, int]] = {}
        self._pieces: list[tuple[int, memoryview]] = []
        self._aborted = False
        self.made: Future[None] = Future()
        self._do(self.made, self._make)

    @property
    def has_room(self) -> bool:
        """Whether `write` would return at once."""
        return self._writer.has_room

    @property
    def error(self) -> BaseException | None:
        """Why the file was given up; None if it was not. `finish` raises it."""
        return self._error

    def write(self, offset: int, view: memoryview) -> Future[None]:
        """Has a piece written; blocks while the writer has no room.

        Args:
            offset: Where it begins in the file.
            view: The bytes; they must stay as they are until `finish` or `abort` is done.

        Returns:
            Done when the file has the bytes; raises OSError if it does not, WriteAborted if it was
            given up. The bytes are durable only when `finish` is done.
        """
        done: Future[None] = Future()
        flat = view.cast("B") if view.format != "B" or view.ndim != 1 else view
        self._do(done, lambda: self._write(offset, flat), len(flat))
        return done

    def finish(self, name: Path | None = None) -> Future[int]:
        """Makes the file durable, under its final name if one is given.

        Returns:
            The CRC-32 of the whole file. Raises OSError if the file cannot be written or not all of
            its bytes were; it is removed then.
        """
        done: Future[int] = Future()
        self._do(done, lambda: self._finish(name))
        return done

    def abort(self) -> Future[None]:
        """Gives the file up and removes it; once the future is done, its memory is not used."""
        self._aborted = True
        done: Future[None] = Future()
        self._writer.add(lambda: _fulfil(done, self._remove))
        return done

    def _do(self, done: "Future[T]", task: Callable[[], T], size_bytes: int = 0) -> None:
        """Have the thread do a task, unless the file has failed or was given up before."""

        def run() -> T:
            if self._aborted:
                raise WriteAborted(str(self._path))
            if self._error is not None:
                raise self._error
            try:
                return task()
            except BaseException as error:
                self._error = error
                self._remove()
                raise

        self._writer.add(lambda: _fulfil(done, run), size_bytes)

    def _make(self) -> None:
        self._file = self._writer.make_file(self._path, self._size_bytes, self._extending)

    def _write(self, offset: int, view: memoryview) -> None:
        assert self._file is not None, "a file is made before it is written"
        await_checksum = self._writer.begin_checksum(view)
        try:
            self._file.write(offset, view)
        finally:
            self._checksums[offset] = len(view), await_checksum()
        self._pieces.append((offset, view))

    def _finish(self, name: Path | None) -> int:
        crc32 = self._join_checksums()
        assert self._file is not None, "a file is made before it is finished"
        try:
            self._file.sync()
        except OSError as error:
            logger.warning("%s was not synced (%s): it is written anew", self._path, error.strerror)
            self._write_anew()
        self._file.close()
        if name is not None:
            self._path.rename(name)
            self._path = name
        flush(self._path.parent)
        self._pieces.clear()
        return crc32

    def _write_anew(self) -> None:
        assert self._file is not None, "only a file that is there is synced"
        self._file.remove()
        self._make()
        for offset, view in self._pieces:
            self._file.write(offset, view)
        self._file.sync()

    def _join_checksums(self) -> int:
        """The file's checksum from those of its pieces."""
        crc32 = end = 0
        for offset, (length, checksum) in sorted(self._checksums.items()):
            if offset != end:
                raise OSError(f"{self._path}: the bytes from {end} on were written twice or never")
            crc32 = combine(crc32, checksum, length)
            end += length
        if end != self._size_bytes:
            raise OSError(f"{self._path}: only {end} of {self._size_bytes} bytes were written")
        return crc32

    def _remove(self) -> None:
        self._pieces.clear()
        if self._file is not None:  # otherwise the path is not ours
            self._file.remove()
            self._path.unlink(missing_ok=True)


def _fulfil(done: "Future[T]", task: Callable[[], T]) -> None:
    try:
        result = task()
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(result)
