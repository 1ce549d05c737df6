"""How much of the disk matrices may take: up to a setting, and to the file system's reserve."""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.free_space import count_usable_bytes
from wavetrim.service.storage.disk.new_file import explain
from wavetrim.service.storage.errors import StorageFull


@dataclass(slots=True)
class Removal:
    """Rows of matrices that are being removed.

    Attributes:
        sizes_bytes: Bytes of their files on disk, by their ids; to be set before the block ends.
    """

    sizes_bytes: dict[str, int] = field(default_factory=dict)


class DiskRoom:
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

    def take(self, matrix_id: str, size_bytes: int) -> None:
        """Count a matrix that is about to be written, and its file that is about to be made.

        Raises:
            StorageFull: There is no room: by the setting, or on the disk.
        """
        with self._lock:
            self._require(size_bytes, size_bytes, has_bytes=0)
            self._pending_bytes[matrix_id] = self._unmade_bytes[matrix_id] = size_bytes

    def begin(self, matrix_id: str, size_bytes: int) -> None:
        """Begin to count a matrix that is received bit by bit, with 0 bytes; see `extending`.

        Raises:
            StorageFull: There is no room for the whole of it now.
            StorageFailed: The folder is away.
        """
        with self._lock:
            self._require(size_bytes, size_bytes, has_bytes=0)
            self._pending_bytes[matrix_id] = 0

    @contextmanager
    def extending(self, matrix_id: str, size_bytes: int, end_bytes: int) -> Iterator[None]:
        """Count more of a matrix that is received bit by bit; its file grows within the block.

        Args:
            matrix_id: The matrix; `begin` was called for it.
            size_bytes: Its whole size, for the refusal.
            end_bytes: The length of its file after the block.

        Raises:
            StorageFull: There is no room: by the setting, or on the disk.
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
            self.note_made(matrix_id)

    def note_made(self, matrix_id: str) -> None:
        """The file has its blocks on the disk, or will not be made."""
        with self._lock:
            self._unmade_bytes.pop(matrix_id, None)

    def give(self, matrix_id: str) -> None:
        """The matrix was given up."""
        with self._lock:
            self._forget(matrix_id)

    def keep(self, matrix_id: str, size_bytes: int) -> None:
        """The matrix is published: its row exists, and its bytes now count as stored."""
        with self._lock:
            # It may have been removed already; then it does not count.
            if self._forget(matrix_id) and self._stored_bytes is not None:
                self._stored_bytes += size_bytes

    # Matrices that are stored.

    @contextmanager
    def removing(self) -> Iterator[Removal]:
        """Follow the removal of rows, whose transaction must begin and end within the block."""
        removal, sums = Removal(), self._sums
        try:
            yield removal
        except SQLAlchemyError:
            self.doubt()  # the rows may have been removed nevertheless
            raise
        with self._lock:
            kept = [size for name, size in removal.sizes_bytes.items() if not self._forget(name)]
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
            limit = (
                f"at most the {max(usable, 0)} bytes that {self._folder} has free beside the "
                f"reserve of {self._reserve_bytes}"
            )
            raise StorageFull("matrix size", size_bytes, limit)

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
