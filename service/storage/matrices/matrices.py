"""The matrices: rows in the database, .npy files in a folder, mapped by the engine.

The row comes last. So a row always has a whole file, and a file without a row is what a crash has
left, or a sign of a lost database.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, bindparam, or_, select

from wavetrim.service.clock import wall_clock
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.ownership import is_owned, read_owner
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.database.write_record import WriteRecord
from wavetrim.service.storage.disk.disk_room import DiskRoom
from wavetrim.service.storage.errors import MatrixInUse, MatrixNotFound
from wavetrim.service.storage.folder.lost import LOST_FOLDER, count_lost_files
from wavetrim.service.storage.folder.sweep import sweep_folder
from wavetrim.service.storage.matrices.file_checks import FileChecks
from wavetrim.service.storage.matrices.listing import (
    find_users,
    read_page,
    remove_row,
    remove_unused,
)
from wavetrim.service.storage.matrices.matrix import Matrix, PendingMatrix
from wavetrim.service.storage.matrices.matrix_files import MatrixFiles
from wavetrim.service.storage.matrices.publication import CommitUnclear, add_row, has_row
from wavetrim.service.storage.matrices.stored_bytes import StoredBytes

logger = logging.getLogger(__name__)

_NAMED: Final = ("first", "second", "third")
_THREE: Final = select(matrices).where(or_(*(matrices.c.id == bindparam(one) for one in _NAMED)))
"""Built once: for each job anew that would take as long as to run it."""


class MatrixStore(MatrixFiles):
    """Stores, finds and removes matrices: files, with the rows that make them known. Thread-safe.

    Args:
        database: Holds the rows.
        folder: Holds the files; made when it is missing. Beside it, `lost` holds those that no row
            names.
        max_matrix_bytes: The largest .npy file that is stored.
        max_storage_bytes: The most that all files may take together.
        reserve_bytes: What the file system must have left beside them.
        writes: Is told how writing went.

    Attributes:
        checks: Whether the files are as they were stored.
        stored: How many bytes each owner has.
        on_removed: Each is called with the id of a matrix that is removed, from any thread.
    """

    def __init__(
        self,
        database: Engine,
        folder: Path,
        *,
        max_matrix_bytes: int,
        max_storage_bytes: int,
        reserve_bytes: int = 0,
        writes: WriteRecord | None = None,
    ) -> None:
        room = DiskRoom(
            database, folder, max_storage_bytes=max_storage_bytes, reserve_bytes=reserve_bytes
        )
        super().__init__(
            folder, room, max_matrix_bytes=max_matrix_bytes, writes=writes or WriteRecord()
        )
        self._database = database
        self._lost_dir = folder.parent / LOST_FOLDER
        self._unclear: dict[str, Matrix] = {}
        self.checks = FileChecks(database)
        self.stored = StoredBytes(database)
        self.on_removed: list[Callable[[str], None]] = []

    def get(self, matrix_id: str, owner: str | None = None) -> Matrix:
        """The matrix with this id.

        Args:
            matrix_id: The id.
            owner: Whose it must be; None for anybody's.

        Raises:
            MatrixNotFound: There is none.
        """
        wanted = select(matrices).where(matrices.c.id == matrix_id, is_owned(matrices, owner))
        with reading(self._database) as connection:
            row = connection.execute(wanted).first()
        if row is None:
            raise MatrixNotFound(matrix_id)
        return self._read_row(row)

    def find(self, ids: Collection[str], owner: str | None = None) -> dict[str, Matrix]:
        """Those matrices, at most three, that are there and an owner's, by their ids.

        Args:
            ids: Their ids.
            owner: Whose they must be; None for anybody's.
        """
        first, *others = ids
        named = dict(zip(_NAMED, (first, *others, first, first), strict=False))
        with reading(self._database) as connection:
            rows = connection.execute(_THREE, named).all()
        seen = (row for row in rows if owner is None or (row.owner or "") == owner)
        return {row.id: self._read_row(row) for row in seen}

    def page(
        self, *, limit: int = 50, cursor: str | None = None, owner: str | None = None
    ) -> tuple[tuple[tuple[Matrix, tuple[str, ...]], ...], str | None]:
        """Reads some matrices, newest first.

        Args:
            limit: The most matrices to return.
            cursor: Where an earlier page ended.
            owner: Whose they are; None for everybody's.

        Returns:
            The matrices, each with the ids of the unfinished jobs that use it, and the cursor of
            the next page (None after the last one).

        Raises:
            CursorUnknown: The cursor was not made by this method.
        """
        rows, users, next_cursor = read_page(
            self._database, limit=limit, cursor=cursor, owner=owner
        )
        shown = ((self._read_row(row), tuple(users.get(row.id, ()))) for row in rows)
        return tuple(shown), next_cursor

    def publish(
        self,
        pending: PendingMatrix,
        digest_sha256: str | None = None,
        *,
        crc32: int | None = None,
        durable: bool = False,
        settle: Callable[[Connection], None] | None = None,
    ) -> Matrix:
        """Makes a written matrix findable under its id.

        Args:
            pending: The matrix; its elements are written and its file is closed.
            digest_sha256: SHA-256 of the whole file in hexadecimal, where it is known.
            crc32: CRC-32 of the whole file, where it is known; otherwise the file is read for it.
            durable: True if the file has its final name and is synced (`FileWrite.finish`).
            settle: Changes more rows in the transaction that adds the matrix's; what it raises
                undoes the publication.

        Raises:
            StorageFull: The disk has no room after all.
            sqlalchemy.exc.SQLAlchemyError: The row could not be added. The file is gone, unless the
                answer to the commit was lost: then `settle_unclear` decides.
        """
        written, crc32 = self._name_file(pending, crc32, durable=durable)
        matrix = self._describe_published(pending, digest_sha256, crc32=crc32, place="disk")
        try:
            add_row(self._database, _describe_row(matrix), settle)
        except CommitUnclear:
            # Its bytes stay counted until the row has decided.
            self._unclear[matrix.id] = matrix
            raise
        except BaseException:
            matrix.path.unlink(missing_ok=True)
            self._room.give(pending.id)
            raise
        self._room.keep(pending.id, pending.size_bytes)
        self.checks.note_intact(matrix.id, written)
        return matrix

    def publish_in_memory(
        self,
        pending: PendingMatrix,
        digest_sha256: str | None = None,
        *,
        settle: Callable[[Connection], None] | None = None,
    ) -> Matrix:
        """Makes a matrix findable that lies in memory only, until the service ends.

        A power cut ends it as well, so the commit does not wait for the disk.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The row could not be added.
        """
        matrix = self._describe_published(pending, digest_sha256, crc32=None, place="memory")
        add_row(self._database, _describe_row(matrix), settle, durable=False)
        return matrix

    def settle_unclear(self) -> None:
        """Ends the publications whose commit was not answered: the row decides.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer; they stay unclear.
        """
        for matrix in list(self._unclear.values()):
            if has_row(self._database, _describe_row(matrix)):
                self._room.keep(matrix.id, matrix.size_bytes)
            else:
                logger.warning("matrix %s was not committed: its file is removed", matrix.id)
                matrix.path.unlink(missing_ok=True)
                self._room.give(matrix.id)
            del self._unclear[matrix.id]

    def delete(self, matrix_id: str, owner: str | None = None) -> None:
        """Removes a matrix. Whoever reads its file at this moment reads on undisturbed.

        Args:
            matrix_id: The matrix.
            owner: Whose it must be; None for anybody's.

        Raises:
            MatrixNotFound: There is none with this id.
            MatrixInUse: A queued or running job names it as an operand.
        """
        wanted = matrices.c.id == matrix_id, is_owned(matrices, owner)
        with self._room.removing() as removal:
            with self._database.begin() as connection:
                found = select(matrices.c.id).where(*wanted).with_for_update()
                if connection.execute(found).first() is None:
                    raise MatrixNotFound(matrix_id)
                if job_ids := find_users(connection, [matrix_id]).get(matrix_id):
                    raise MatrixInUse(matrix_id, job_ids)
                size_bytes = remove_row(connection, matrix_id)
            removal.sizes_bytes[matrix_id] = size_bytes
        self._forget(matrix_id)

    def expire(self, ttl_seconds: float, *, start: float) -> list[str]:
        """Removes the matrices that nobody has used for a time.

        A matrix is used when it is stored and by each job that names it or makes it; what an
        unfinished job names stays.

        Args:
            ttl_seconds: How long; 0 keeps all.
            start: No age is counted from before this time (UTC seconds since the epoch).

        Returns:
            The ids of those that were removed.
        """
        before = time.time() - ttl_seconds
        if ttl_seconds == 0 or start >= before:
            return []
        removed: list[str] = []
        batches = remove_unused(self._database, before)
        while True:
            with self._room.removing() as removal:
                batch = next(batches, None)
                removal.sizes_bytes = batch or {}
            if batch is None:
                return removed
            for matrix_id in batch:
                self._forget(matrix_id)
            removed += batch

    def sweep(self) -> None:
        """Clears up after an earlier run.

        Only what is proved to be unfinished is removed: partial and temporary files. A matrix that
        the database does not know goes to `lost_dir`.

        To be called once, before anything is allocated and before any job runs again.
        """
        sweep_folder(self._database, self._folder, self._lost_dir)
        self._room.doubt()

    def count_lost_files(self) -> int:
        """How many files wait in `lost_dir`."""
        return count_lost_files(self._lost_dir)

    def _describe_published(
        self, pending: PendingMatrix, digest_sha256: str | None, *, crc32: int | None, place: str
    ) -> Matrix:
        described = asdict(pending)
        described |= {
            "path": pending.path.with_suffix(".npy"),
            "digest_sha256": digest_sha256,
            "created_at": wall_clock.stamp(),
            "crc32": crc32,
            "place": place,
        }
        return Matrix(**described)

    def _forget(self, matrix_id: str) -> None:
        """The row is gone: nothing else of the matrix stays."""
        for tell in self.on_removed:
            tell(matrix_id)
        self.checks.forget(matrix_id)
        self._locate(matrix_id).unlink(missing_ok=True)

    def _read_row(self, row: Row[Any]) -> Matrix:
        described = read_owner(dict(row._mapping))
        described["place"] = described["place"] or "disk"
        return Matrix(**described, path=self._locate(row.id))


def _describe_row(matrix: Matrix) -> dict[str, Any]:
    row = asdict(matrix) | {"owner": matrix.owner or None}
    del row["path"]
    return row
