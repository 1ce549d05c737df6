"""How many bytes of matrices there are: on disk, and of each owner.

The rows are summed once; then the sums follow what is published and removed. When they may be
wrong, as after a removal that the database did not answer, the rows are summed again at the next
use. No one else changes the rows while a service has the data folder.
"""

import errno
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, Row, func, select
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import api_keys, matrices
from wavetrim.service.storage.disk.files import explain, require_space
from wavetrim.service.storage.errors import StorageFailed, StorageFull, StoredQuotaReached
from wavetrim.service.storage.matrices.matrix import Matrix

_QUOTA_SECONDS: Final = 1.0
"""Time for which a quota that was read holds: changes of keys count within two seconds."""


class StoredBytes:
    """Counts the bytes of matrices, including those that are not published yet. Thread-safe.

    Args:
        database: Has the matrices, and the quotas of keys.
        folder: Where their files are.
        max_storage_bytes: The most that all files may take together.

    Attributes:
        failure: Why the last write of a file has failed; None if it has not.
    """

    def __init__(self, database: Engine, folder: Path, *, max_storage_bytes: int) -> None:
        self.failure: str | None = None
        self._database = database
        self._folder = folder
        self._max_storage_bytes = max_storage_bytes
        # Bytes of the rows, by owner and whether they are on disk; None to sum them anew.
        self._stored: Counter[tuple[str, bool]] | None = None
        self._sums = 0
        self._unpublished: dict[str, Matrix] = {}
        self._made = set[str]()  # those whose files are made, and count
        self._sent = Counter[str]()  # by id, how many callers are being sent it
        self._removed: dict[str, tuple[str, int]] = {}  # owner and bytes of those that are sent
        self._quotas: dict[str, int | None] = {}
        self._quotas_until = 0.0
        self._lock = threading.Lock()

    # Matrices that are not published yet.

    def begin(self, matrix: Matrix) -> None:
        """Begin to count a matrix that is about to be stored; its file counts when it is made.

        Raises:
            StoredQuotaReached: The owner's quota has less left.
            StorageFull: There is no space for it now: by the setting, or on the disk.
            StorageFailed: The folder is away.
        """
        most_bytes = self._find_quota(matrix.owner) if matrix.owner else None
        with self._lock:
            if most_bytes is not None:
                total_bytes = self._count_owned(matrix.owner) + matrix.size_bytes
                if total_bytes > most_bytes:
                    raise StoredQuotaReached(total_bytes, most_bytes)
            if matrix.on_disk:
                self._require(matrix.size_bytes)
            self._unpublished[matrix.id] = matrix

    @contextmanager
    def making(self, matrix: Matrix, size_bytes: int) -> Iterator[None]:
        """Count a matrix's file, which is made with its space within the block.

        Args:
            matrix: The matrix; `begin` was called for it.
            size_bytes: The length of the file: shorter ones only have its first bytes, and do not
                count.

        Raises:
            StorageFull: There is no space: by the setting, or on the disk.
            StorageFailed: It cannot be made, or was given up.
        """
        with self._lock:
            if matrix.id not in self._unpublished:
                raise StorageFailed(self._folder, f"matrix {matrix.id} was given up")
            if matrix.id in self._made:  # it is made anew
                require_space(self._folder, size_bytes)
            else:
                self._require(size_bytes)
            if size_bytes == matrix.size_bytes:
                self._made.add(matrix.id)
        try:
            yield
        except OSError as error:
            raise self.explain(error, matrix.size_bytes) from error

    def explain(self, error: OSError, size_bytes: int) -> Exception:
        """The error for the caller of a failed write; the failure is noted for readiness, too."""
        if error.errno != errno.EFBIG:
            self.failure = f"the last write failed ({error.strerror or error})"
        return explain(error, self._folder, size_bytes)

    def note_discarded(self, matrix_id: str) -> None:
        """The matrix was given up."""
        with self._lock:
            self._end(matrix_id)

    def note_published(self, matrix_id: str) -> None:
        """The matrix is published: its row exists, and its bytes now count as stored."""
        with self._lock:
            matrix = self._end(matrix_id)  # None if it was removed already
            if matrix is not None and self._stored is not None:
                self._stored[matrix.owner, matrix.on_disk] += matrix.size_bytes

    # Matrices that are stored.

    @contextmanager
    def removing(self) -> Iterator[list[Row[Any]]]:
        """Follow the removal of rows, whose transaction must begin and end within the block.

        Yields:
            The rows, to be filled in the block: id, size_bytes, place and owner.
        """
        rows, sums = list[Row[Any]](), self._sums
        try:
            yield rows
        except SQLAlchemyError:
            self.sum_anew()  # the rows may have been removed nevertheless
            raise
        with self._lock:
            if self._sums != sums:
                self._stored = None  # summed meanwhile, with or without these rows
            for row in rows:
                if row.id in self._sent:
                    self._removed[row.id] = row.owner or "", row.size_bytes
                if self._end(row.id) is None and self._stored is not None:
                    self._stored[_find_share(row.owner, row.place)] -= row.size_bytes

    @contextmanager
    def sending(self, matrix: Matrix) -> Iterator[None]:
        """Have a matrix count until the block has sent it, even when it is removed meanwhile."""
        with self._lock:
            self._sent[matrix.id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._sent[matrix.id] -= 1
                if not self._sent[matrix.id]:
                    del self._sent[matrix.id]
                    self._removed.pop(matrix.id, None)

    def sum_anew(self) -> None:
        """The sums may be wrong: sum the rows at their next use."""
        with self._lock:
            self._stored = None
            self._sums += 1

    def count_on_disk(self) -> int:
        """Bytes of all matrices on disk, including those that are being written."""
        with self._lock:
            return self._count_on_disk()

    def count_owned(self, owner: str) -> int:
        """Bytes of an owner's matrices, on disk and in memory, also of removed ones in use."""
        with self._lock:
            return self._count_owned(owner)

    def _find_quota(self, owner: str) -> int | None:
        if time.monotonic() >= self._quotas_until:
            self._quotas, self._quotas_until = {}, time.monotonic() + _QUOTA_SECONDS
        quotas = self._quotas
        if owner not in quotas:
            wanted = select(api_keys.c.max_stored_bytes).where(api_keys.c.name == owner)
            with reading(self._database) as connection:
                quotas[owner] = connection.scalar(wanted)
        return quotas[owner]

    def _require(self, size_bytes: int) -> None:
        """Make sure that there is space for a file of this length."""
        free = self._max_storage_bytes - self._count_on_disk()
        if size_bytes > free:
            limit = (
                f"at most the {max(free, 0)} bytes left of {self._max_storage_bytes} "
                "(max_storage_bytes)"
            )
            raise StorageFull("matrix size", size_bytes, limit)
        require_space(self._folder, size_bytes)

    def _end(self, matrix_id: str) -> Matrix | None:
        """A matrix is no longer unpublished."""
        self._made.discard(matrix_id)
        return self._unpublished.pop(matrix_id, None)

    def _count_on_disk(self) -> int:
        stored = self._sum_stored().items()
        made = sum(self._unpublished[name].size_bytes for name in self._made)
        return made + sum(size for (_, on_disk), size in stored if on_disk)

    def _count_owned(self, owner: str) -> int:
        return (
            sum(size for (whose, _), size in self._sum_stored().items() if whose == owner)
            + sum(one.size_bytes for one in self._unpublished.values() if one.owner == owner)
            + sum(size for whose, size in self._removed.values() if whose == owner)
        )

    def _sum_stored(self) -> Counter[tuple[str, bool]]:
        """The sums of the rows, except matrices that still count as unpublished."""
        if self._stored is None:
            size = func.sum(matrices.c.size_bytes).label("size_bytes")
            summed = select(matrices.c.owner, matrices.c.place, size)
            summed = summed.where(matrices.c.id.not_in(list(self._unpublished)))
            self._stored = Counter()
            with reading(self._database) as connection:
                found = connection.execute(summed.group_by(matrices.c.owner, matrices.c.place))
                for owner, place, size_bytes in found:
                    self._stored[_find_share(owner, place)] += int(size_bytes)
            self._sums += 1
        return self._stored


def _find_share(owner: str | None, place: str | None) -> tuple[str, bool]:
    return owner or "", place != "memory"
