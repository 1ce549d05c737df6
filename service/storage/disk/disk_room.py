"""What matrices may take of the disk: by the setting, and beside the file system's reserve."""

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
from wavetrim.service.storage.errors import StorageFull


@dataclass(slots=True)
class Removal:
    """Rows of matrices that are being removed.

    Attributes:
        sizes_bytes: What their files take on the disk, by their ids; to be set before the removal
            ends.
    """

    sizes_bytes: dict[str, int] = field(default_factory=dict)


class DiskRoom:
    """Counts the bytes of matrices, those on their way included. Thread-safe.

    The rows are summed once; from then on the sum follows what is published and removed. Where it
    might not, as after a removal that the database did not answer, the rows are summed again when
    the sum is asked for next. Nobody else changes the rows while a service has the data folder.

    Args:
        database: Has the sizes of stored matrices.
        folder: Where their files are.
        max_storage_bytes: The most that all files may take together.
        reserve_bytes: What the file system must have left beside them.
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

    # Matrices on their way.

    def take(self, matrix_id: str, size_bytes: int) -> None:
        """Count a matrix that is about to be written, and its file that is about to be made.

        Raises:
            StorageFull: There is no room: by the setting, or on the disk.
        """
        with self._lock:
            self._require(size_bytes, size_bytes, has_bytes=0)
            self._pending_bytes[matrix_id] = self._unmade_bytes[matrix_id] = size_bytes

    def begin(self, matrix_id: str, size_bytes: int) -> None:
        """Count a matrix that comes bit by bit: nothing yet. `extending` takes room for it.

        Raises:
            StorageFull: There is no room for the whole of it now.
        """
        with self._lock:
            self._require(size_bytes, size_bytes, has_bytes=0)
            self._pending_bytes[matrix_id] = 0

    @contextmanager
    def extending(self, matrix_id: str, size_bytes: int, end_bytes: int) -> Iterator[None]:
        """Count more of a matrix that comes bit by bit, for a block that makes its file longer.

        Args:
            matrix_id: The matrix; `begin` was called for it.
            size_bytes: Its whole size, for the refusal.
            end_bytes: The length of its file behind the block.

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
        """The matrix is stored: its row is there, and has been counted as on its way so far."""
        with self._lock:
            # One that was removed before we came here is not counted any more.
            if self._forget(matrix_id) and self._stored_bytes is not None:
                self._stored_bytes += size_bytes

    # Matrices that are stored.

    @contextmanager
    def removing(self) -> Iterator[Removal]:
        """Follow the removal of rows: the block's transaction ends in the block."""
        removal, sums = Removal(), self._sums
        try:
            yield removal
        except SQLAlchemyError:
            self.doubt()  # the rows may be gone all the same
            raise
        with self._lock:
            kept = [size for name, size in removal.sizes_bytes.items() if not self._forget(name)]
            if self._sums != sums:
                self._stored_bytes = None  # summed meanwhile: with these rows, or without them
            elif self._stored_bytes is not None:
                self._stored_bytes -= sum(kept)

    def doubt(self) -> None:
        """Rows may have changed without notice: sum them when the sum is asked for next."""
        with self._lock:
            self._stored_bytes = None
            self._sums += 1

    def count(self) -> int:
        """Bytes of all matrices on disk, those still being written included."""
        with self._lock:
            return self._count()

    def _forget(self, matrix_id: str) -> bool:
        """A matrix is not on its way any more; returns whether it was."""
        self._unmade_bytes.pop(matrix_id, None)
        return self._pending_bytes.pop(matrix_id, None) is not None

    def _require(self, size_bytes: int, end_bytes: int, *, has_bytes: int) -> None:
        """Make sure that a matrix of this size, of which some is counted, can have so much."""
        free = self._max_storage_bytes - self._count() + has_bytes
        if end_bytes > free:
            limit = (
                f"at most the {max(free, 0)} bytes left of {self._max_storage_bytes} "
                "(max_storage_bytes)"
            )
            raise StorageFull("matrix size", size_bytes, limit)
        usable = count_usable_bytes(self._folder, self._reserve_bytes) + has_bytes
        usable -= sum(self._unmade_bytes.values())
        if end_bytes > usable:
            limit = (
                f"at most the {max(usable, 0)} bytes that {self._folder} has free beside the "
                f"reserve of {self._reserve_bytes} (reserve_bytes)"
            )
            raise StorageFull("matrix size", size_bytes, limit)

    def _count(self) -> int:
        if self._stored_bytes is None:
            self._stored_bytes = self._sum_rows()
            self._sums += 1
        return self._stored_bytes + sum(self._pending_bytes.values())

    def _sum_rows(self) -> int:
        """The rows of matrices that are not on their way: those are counted already."""
        size = func.coalesce(func.sum(matrices.c.size_bytes), 0)
        on_disk = matrices.c.place.is_distinct_from("memory")
        others = matrices.c.id.not_in(list(self._pending_bytes))
        with reading(self._database) as connection:
            return int(connection.scalar(select(size).where(on_disk, others)) or 0)
