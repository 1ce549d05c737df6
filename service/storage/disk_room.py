"""What matrices may take of the disk: by the setting, and beside the file system's reserve."""

import threading
from pathlib import Path

from sqlalchemy import Engine, func, select

from wavetrim.service.errors import StorageFull
from wavetrim.service.storage.database import reading
from wavetrim.service.storage.free_space import count_usable_bytes
from wavetrim.service.storage.tables import matrices


class DiskRoom:
    """Counts the bytes of matrices, those on their way included. Thread-safe.

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
        self._pending_bytes: dict[str, int] = {}
        self._unmade_bytes: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, matrix_id: str, size_bytes: int) -> None:
        """Count a matrix that is about to be written, and its file that is about to be made.

        Raises:
            StorageFull: There is no room: by the setting, or on the disk.
        """
        with self._lock:
            free = self._max_storage_bytes - self._count()
            if size_bytes > free:
                limit = (
                    f"at most the {max(free, 0)} bytes left of {self._max_storage_bytes} "
                    "(max_storage_bytes)"
                )
                raise StorageFull("matrix size", size_bytes, limit)
            usable = count_usable_bytes(self._folder, self._reserve_bytes)
            usable -= sum(self._unmade_bytes.values())
            if size_bytes > usable:
                limit = (
                    f"at most the {max(usable, 0)} bytes that {self._folder} has free beside the "
                    f"reserve of {self._reserve_bytes} (reserve_bytes)"
                )
                raise StorageFull("matrix size", size_bytes, limit)
            self._pending_bytes[matrix_id] = self._unmade_bytes[matrix_id] = size_bytes

    def note_made(self, matrix_id: str) -> None:
        """The file has its blocks on the disk, or will not be made."""
        with self._lock:
            self._unmade_bytes.pop(matrix_id, None)

    def give(self, matrix_id: str) -> None:
        """The matrix is stored, so the database counts it, or it was given up."""
        with self._lock:
            self._pending_bytes.pop(matrix_id, None)
            self._unmade_bytes.pop(matrix_id, None)

    def count(self) -> int:
        """Bytes of all matrices on disk, those still being written included."""
        with self._lock:
            return self._count()

    def _count(self) -> int:
        with reading(self._database) as connection:
            size = func.coalesce(func.sum(matrices.c.size_bytes), 0)
            on_disk = matrices.c.place.is_distinct_from("memory")
            stored = connection.scalar(select(size).where(on_disk))
        return int(stored or 0) + sum(self._pending_bytes.values())
