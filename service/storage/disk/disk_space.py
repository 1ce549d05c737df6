"""How much of the disk matrices may take: up to a setting, and to the file system's reserve.

The reserve is for the database and its log. On a full disk they must go on: matrices can be deleted
and jobs cancelled only while the database can be written to.
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.new_file import explain
from wavetrim.service.storage.errors import StorageFull

RESERVE_BYTES: Final = 64 * 2**20
"""Space that must stay free on the file system of the matrices; chosen."""


def measure_disk(folder: Path, reserve_bytes: int) -> dict[str, int]:
    """How full the file system of a folder is, by the names that `/v1/devices` documents."""
    found = os.statvfs(folder)
    return {
        "size_bytes": found.f_blocks * found.f_frsize,
        "used_bytes": (found.f_blocks - found.f_bfree) * found.f_frsize,
        "free_bytes": max(0, count_usable_bytes(folder, reserve_bytes)),
    }


def count_usable_bytes(folder: Path, reserve_bytes: int) -> int:
    """Bytes that new files in a folder may take; negative when the reserve is in use."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize - reserve_bytes


def refuse_disk(
    size_bytes: int, usable_bytes: int, folder: Path, reserve_bytes: int
) -> StorageFull:
    """The refusal of a matrix for which the file system has too little left."""
    limit = (
        f"at most the {max(usable_bytes, 0)} bytes that {folder} has free beside the "
        f"reserve of {reserve_bytes}"
    )
    return StorageFull("matrix size", size_bytes, limit)


class DiskSpace:
    """Counts the bytes of matrices, including those that are not published yet. Thread-safe.

    The rows are summed once; then the sum follows what is published and removed. When it may be
    wrong, as after a removal that the database did not answer, the rows are summed again at the
    next use. No one else changes the rows while a service has the data folder.

    Args:
        database: Has the sizes of stored matrices.
        folder: Where their files are.
        max_storage_bytes: The most that all files may take together.
        reserve_bytes: Bytes that must stay free on the file system.
    """

    def __init__(
        self, database: Engine, folder: Path, *, max_storage_bytes: int, reserve_bytes: int
    ) -> None:
        self._database = database
        self._folder = folder
        self._max_storage_bytes = max_storage_bytes
        self._reserve_bytes = reserve_bytes
        self._stored_bytes: int | None = None
        self._sums = 0
        self._pending_bytes: dict[str, int] = {}
        self._unmade_bytes: dict[str, int] = {}
        self._lock = threading.Lock()

    # Matrices that are not published yet.

    def begin(self, matrix_id: str, size_bytes: int, *, growing: bool) -> None:
        """Begin to count a matrix that is about to be written.

        Args:
            matrix_id: The matrix.
            size_bytes: Its whole size.
            growing: Whether it counts as it comes (`extending`), instead of as a whole now.

        Raises:
            StorageFull: There is no space for the whole of it now: by the setting, or on the disk.
            StorageFailed: The folder is away.
        """
        with self._lock:
            self._require(size_bytes, size_bytes, has_bytes=0)
            counted = 0 if growing else size_bytes
            self._pending_bytes[matrix_id] = self._unmade_bytes[matrix_id] = counted

    @contextmanager
    def extending(self, matrix_id: str, size_bytes: int, end_bytes: int) -> Iterator[None]:
        """Count more of a matrix, if less is counted; its file grows within the block.

        Args:
            matrix_id: The matrix; `begin` was called for it.
            size_bytes: Its whole size, for the refusal.
            end_bytes: The length of its file after the block.

        Raises:
            StorageFull: There is no space: by the setting, or on the disk.
            OSError: The matrix was given up.
        """
        with self._lock:
            has_bytes = self._pending_bytes.get(matrix_id)
            if has_bytes is None:
                raise OSError(errno.ECANCELED, "the matrix was given up", matrix_id)
            if end_bytes > has_bytes:
                self._require(size_bytes, end_bytes, has_bytes=has_bytes)
                self._pending_bytes[matrix_id] = end_bytes
                self._unmade_bytes[matrix_id] = end_bytes - has_bytes
        try:
            yield
        except BaseException:
            with self._lock:
                if matrix_id in self._pending_bytes:
                    self._pending_bytes[matrix_id] = has_bytes
            raise
        finally:
            with self._lock:
                if end_bytes >= self._pending_bytes.get(matrix_id, 0):
                    self._unmade_bytes.pop(matrix_id, None)  # the disk has the blocks, or refused

    def give(self, matrix_id: str) -> None:
        """The matrix was given up."""
        with self._lock:
            self._forget(matrix_id)

    def keep(self, matrix_id: str, size_bytes: int) -> None:
        """The matrix is published: its row exists, and its bytes now count as stored."""
        with self._lock:
            # One that is in memory only, or was removed already, does not count.
            if self._forget(matrix_id) and self._stored_bytes is not None:
                self._stored_bytes += size_bytes

    # Matrices that are stored.

    @contextmanager
    def removing(self) -> Iterator[dict[str, int]]:
        """Follow the removal of rows, whose transaction must begin and end within the block.

        Yields:
            Bytes of the rows' files on disk, by their ids; to be filled in the block.
        """
        removed, sums = dict[str, int](), self._sums
        try:
            yield removed
        except SQLAlchemyError:
            self.doubt()  # the rows may have been removed nevertheless
            raise
        with self._lock:
            kept = [size for name, size in removed.items() if not self._forget(name)]
            if self._sums != sums:
                self._stored_bytes = None  # summed meanwhile, with or without these rows
            elif self._stored_bytes is not None:
                self._stored_bytes -= sum(kept)

    def doubt(self) -> None:
        """The sum may be wrong: sum the rows at its next use."""
        with self._lock:
            self._stored_bytes = None
            self._sums += 1

    def count(self) -> int:
        """Bytes of all matrices on disk, including those that are being written."""
        with self._lock:
            return self._count()

    def _forget(self, matrix_id: str) -> bool:
        """Stop counting a matrix as unpublished; returns whether it was."""
        self._unmade_bytes.pop(matrix_id, None)
        return self._pending_bytes.pop(matrix_id, None) is not None

    def _require(self, size_bytes: int, end_bytes: int, *, has_bytes: int) -> None:
        """Make sure that a matrix can have `end_bytes`; `has_bytes` of it are counted already."""
        free = self._max_storage_bytes - self._count() + has_bytes
        if end_bytes > free:
            limit = (
                f"at most the {max(free, 0)} bytes left of {self._max_storage_bytes} "
                "(max_storage_bytes)"
            )
            raise StorageFull("matrix size", size_bytes, limit)
        try:
            usable = count_usable_bytes(self._folder, self._reserve_bytes) + has_bytes
        except OSError as error:
            raise explain(error, self._folder, size_bytes) from error
        usable -= sum(self._unmade_bytes.values())
        if end_bytes > usable:
            raise refuse_disk(size_bytes, usable, self._folder, self._reserve_bytes)

    def _count(self) -> int:
        if self._stored_bytes is None:
            self._stored_bytes = self._sum_rows()
            self._sums += 1
        return self._stored_bytes + sum(self._pending_bytes.values())

    def _sum_rows(self) -> int:
        """Sum the rows, except matrices that still count as unpublished."""
        size = func.coalesce(func.sum(matrices.c.size_bytes), 0)
        on_disk = matrices.c.place.is_distinct_from("memory")
        others = matrices.c.id.not_in(list(self._pending_bytes))
        with reading(self._database) as connection:
            return int(connection.scalar(select(size).where(on_disk, others)) or 0)
