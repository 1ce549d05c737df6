"""How many bytes of matrices there are: on disk, and of each owner.

The rows on disk are summed once; then the sum follows what is published and removed. When it may be
wrong, as after a removal that the database did not answer, the rows are summed again at the next
use. No one else changes the rows while a service has the data folder.
"""

import errno
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import api_keys, is_owned, matrices
from wavetrim.service.storage.disk.disk_space import count_usable_bytes, refuse_disk
from wavetrim.service.storage.disk.new_file import explain
from wavetrim.service.storage.errors import StorageFull, StoredQuotaReached
from wavetrim.service.storage.matrices.matrix import Matrix


@dataclass(slots=True)
class _Coming:
    """A matrix that is not published yet.

    Attributes:
        matrix: What it will be.
        counted_bytes: The length of its file that is counted.
        made_bytes: The length to which the disk has given it blocks.
    """

    matrix: Matrix
    counted_bytes: int
    made_bytes: int = 0


class StoredBytes:
    """Counts the bytes of matrices, including those that are not published yet. Thread-safe.

    Args:
        database: Has the matrices, and the quotas of keys.
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
        self._coming: dict[str, _Coming] = {}
        self._sent = Counter[Matrix]()
        self._lock = threading.Lock()
        self._quota_lock = threading.Lock()

    # Matrices that are not published yet.

    def begin(self, matrix: Matrix, *, growing: bool) -> None:
        """Begin to count a matrix that is about to be stored.

        Args:
            matrix: The matrix.
            growing: Whether its file counts as it comes (`extending`), instead of as a whole now.

        Raises:
            StoredQuotaReached: The owner's quota has less left.
            StorageFull: There is no space for the whole of it now: by the setting, or on the disk.
            StorageFailed: The folder is away.
        """
        # Of owners with a quota one at a time, so that two do not take the same bytes.
        with self._quota_lock if matrix.owner else nullcontext():
            if matrix.owner:
                self._require_quota(matrix)
            with self._lock:
                if matrix.on_disk:
                    self._require(matrix.size_bytes, matrix.size_bytes, counted_bytes=0)
                counted_bytes = matrix.size_bytes if matrix.on_disk and not growing else 0
                self._coming[matrix.id] = _Coming(matrix, counted_bytes)

    @contextmanager
    def extending(self, matrix: Matrix, end_bytes: int) -> Iterator[None]:
        """Count more of a matrix, if less is counted; its file grows within the block.

        Args:
            matrix: The matrix; `begin` was called for it.
            end_bytes: The length of its file after the block.

        Raises:
            StorageFull: There is no space: by the setting, or on the disk.
            OSError: The matrix was given up.
        """
        with self._lock:
            one = self._coming.get(matrix.id)
            if one is None:
                raise OSError(errno.ECANCELED, "the matrix was given up", matrix.id)
            counted_bytes = one.counted_bytes
            if end_bytes > counted_bytes:
                self._require(matrix.size_bytes, end_bytes, counted_bytes=counted_bytes)
                one.counted_bytes = end_bytes
        try:
            yield
        except BaseException:
            one.counted_bytes = counted_bytes
            raise
        one.made_bytes = end_bytes

    def note_discarded(self, matrix_id: str) -> None:
        """The matrix was given up."""
        with self._lock:
            self._coming.pop(matrix_id, None)

    def note_published(self, matrix_id: str) -> None:
        """The matrix is published: its row exists, and its bytes now count as stored."""
        with self._lock:
            one = self._coming.pop(matrix_id, None)  # None if it was removed already
            if one is not None and one.matrix.on_disk and self._stored_bytes is not None:
                self._stored_bytes += one.matrix.size_bytes

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
            counted = [size for name, size in removed.items() if not self._coming.pop(name, None)]
            if self._sums != sums:
                self._stored_bytes = None  # summed meanwhile, with or without these rows
            elif self._stored_bytes is not None:
                self._stored_bytes -= sum(counted)

    @contextmanager
    def sending(self, matrix: Matrix) -> Iterator[None]:
        """Have a matrix count until the block has sent it, even when it is removed meanwhile."""
        with self._lock:
            self._sent[matrix] += 1
        try:
            yield
        finally:
            with self._lock:
                self._sent[matrix] -= 1
                if not self._sent[matrix]:
                    del self._sent[matrix]

    def doubt(self) -> None:
        """The sum may be wrong: sum the rows at its next use."""
        with self._lock:
            self._stored_bytes = None
            self._sums += 1

    def count_on_disk(self) -> int:
        """Bytes of all matrices on disk, including those that are being written."""
        with self._lock:
            return self._count_on_disk()

    def count_owned(self, owner: str) -> int:
        """Bytes of an owner's matrices, on disk and in memory, also of removed ones in use."""
        # What is not published comes first: what is published meanwhile counts twice, not never.
        with self._lock:
            coming = [one.matrix for one in self._coming.values() if one.matrix.owner == owner]
            sent = {one.id: one.size_bytes for one in self._sent if one.owner == owner}
        size = func.coalesce(func.sum(matrices.c.size_bytes), 0)
        with reading(self._database) as connection:
            stored = connection.scalar(select(size).where(is_owned(matrices, owner)))
            there = select(matrices.c.id).where(matrices.c.id.in_(list(sent)))
            for matrix_id in connection.scalars(there) if sent else ():
                del sent[matrix_id]
        return int(stored or 0) + sum(one.size_bytes for one in coming) + sum(sent.values())

    def _require_quota(self, matrix: Matrix) -> None:
        wanted = select(api_keys.c.max_stored_bytes).where(api_keys.c.name == matrix.owner)
        with reading(self._database) as connection:
            most = connection.scalar(wanted)
        if most is not None:
            total = self.count_owned(matrix.owner) + matrix.size_bytes
            if total > most:
                raise StoredQuotaReached(total, most)

    def _require(self, size_bytes: int, end_bytes: int, *, counted_bytes: int) -> None:
        """Make sure that a file can have `end_bytes`; `counted_bytes` of it are counted already."""
        free = self._max_storage_bytes - self._count_on_disk() + counted_bytes
        if end_bytes > free:
            limit = (
                f"at most the {max(free, 0)} bytes left of {self._max_storage_bytes} "
                "(max_storage_bytes)"
            )
            raise StorageFull("matrix size", size_bytes, limit)
        try:
            usable = count_usable_bytes(self._folder, self._reserve_bytes) + counted_bytes
        except OSError as error:
            raise explain(error, self._folder, size_bytes) from error
        usable -= sum(one.counted_bytes - one.made_bytes for one in self._coming.values())
        if end_bytes > usable:
            raise refuse_disk(size_bytes, usable, self._folder, self._reserve_bytes)

    def _count_on_disk(self) -> int:
        if self._stored_bytes is None:
            self._stored_bytes = self._sum_rows()
            self._sums += 1
        return self._stored_bytes + sum(one.counted_bytes for one in self._coming.values())

    def _sum_rows(self) -> int:
        """Sum the rows on disk, except matrices that still count as unpublished."""
        size = func.coalesce(func.sum(matrices.c.size_bytes), 0)
        on_disk = matrices.c.place.is_distinct_from("memory")
        others = matrices.c.id.not_in(list(self._coming))
        with reading(self._database) as connection:
            return int(connection.scalar(select(size).where(on_disk, others)) or 0)
