"""The store of matrices: rows in the database, .npy files in a folder.

The row is added last. So a row always has a whole file, and a file without a row was left by a
crash, or its database was lost.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, Row, bindparam, or_, select

from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.ownership import is_owned, read_owner
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.database.write_record import WriteRecord
from wavetrim.service.storage.disk.disk_room import DiskRoom
from wavetrim.service.storage.disk.new_file import remove
from wavetrim.service.storage.errors import MatrixNotFound
from wavetrim.service.storage.folder.lost import LOST_FOLDER, count_lost_files
from wavetrim.service.storage.folder.sweep import sweep_folder
from wavetrim.service.storage.matrices.file_checks import FileChecks
from wavetrim.service.storage.matrices.listing import (
    expect_unused,
    read_page,
    remove_row,
    remove_unused,
)
from wavetrim.service.storage.matrices.matrix import Matrix, PendingMatrix
from wavetrim.service.storage.matrices.matrix_files import MatrixFiles
from wavetrim.service.storage.matrices.publication import Publication, Settle, add_row, describe_row
from wavetrim.service.storage.matrices.stored_bytes import StoredBytes

_NAMED: Final = ("first", "second", "third")
_THREE: Final = select(matrices).where(or_(*(matrices.c.id == bindparam(one) for one in _NAMED)))
"""The statement of `find`, built once: building it takes as long as running it."""


class MatrixStore(MatrixFiles):
    """Stores, finds and removes matrices: their files and their rows. Thread-safe.

    Args:
        database: Has the rows.
        folder: Has the files; made if it is missing. The folder `lost` beside it has files without
            rows.
        max_matrix_bytes: The largest .npy file that is stored.
        max_storage_bytes: The most that all files may take together.
        reserve_bytes: Bytes that must stay free on the file system.
        writes: Notes whether writing works.

    Attributes:
        checks: Checks whether files are as they were stored.
        stored: How many bytes each owner has.
        on_removed: Each is called with the id of a removed matrix, from any thread.
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
        self._publication = Publication(database, room)
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
        """Those of at most three matrices that exist and belong to an owner, by their ids.

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
            The matrices, each with the ids of the owner's unfinished jobs that use it, and the
            cursor of the next page (None after the last one).

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
        settle: Settle | None = None,
    ) -> Matrix:
        """Adds the row of a written matrix, which is then found under its id.

        Args:
            pending: The matrix; its elements are written and its file is closed.
            digest_sha256: SHA-256 of the whole file in hexadecimal, if it is known.
            crc32: CRC-32 of the whole file; None to read the file for it.
            durable: True if the file has its final name and is synced (`FileWrite.finish`).
            settle: Changes more rows in the same transaction.

        Raises:
            StorageFull: The disk has no room after all.
            sqlalchemy.exc.SQLAlchemyError: The row could not be added. The file is removed, unless
                the answer to the commit was lost: then `settle_unclear` decides.
        """
        written, crc32 = self._name_file(pending, crc32, durable=durable)
        matrix = self._describe_published(pending, digest_sha256, crc32=crc32, place="disk")
        self._publication.add(matrix, settle)
        self.checks.note_intact(matrix.id, written)
        return matrix

    def publish_in_memory(
        self,
        pending: PendingMatrix,
        digest_sha256: str | None = None,
        *,
        settle: Settle | None = None,
    ) -> Matrix:
        """Adds the row of a matrix that is kept in memory only, until the service ends.

        A power cut ends it, too, so the commit does not wait for the disk.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The row could not be added.
        """
        matrix = self._describe_published(pending, digest_sha256, crc32=None, place="memory")
        add_row(self._database, describe_row(matrix), settle, durable=False)
        return matrix

    def settle_unclear(self) -> None:
        """Ends the publications whose commit was not answered (`Publication.settle_unclear`)."""
        self._publication.settle_unclear()

    def delete(self, matrix_id: str, owner: str | None = None) -> None:
        """Removes a matrix. Whoever is reading its file can go on.

        Args:
            matrix_id: The matrix.
            owner: Whose it must be; None for anybody's.

        Raises:
            MatrixNotFound: There is none with this id.
            MatrixInUse: A queued or running job names it as an operand; jobs of another owner than
                the caller are not named.
        """
        wanted = matrices.c.id == matrix_id, is_owned(matrices, owner)
        with self._room.removing() as removal:
            with self._database.begin() as connection:
                found = select(matrices.c.id).where(*wanted).with_for_update()
                if connection.execute(found).first() is None:
                    raise MatrixNotFound(matrix_id)
                expect_unused(connection, matrix_id, owner)
                size_bytes = remove_row(connection, matrix_id)
            removal.sizes_bytes[matrix_id] = size_bytes
        self._forget(matrix_id)

    def expire(self, ttl_seconds: float, *, start: float) -> list[str]:
        """Removes the matrices that nobody has used for a time.

        A matrix is used when it is stored, and by each job that names or makes it. Operands of an
        unfinished job are never removed.

        Args:
            ttl_seconds: How long; 0 keeps all.
            start: The time before which no age is counted (UTC seconds since the epoch).

        Returns:
            The ids of the removed matrices.
        """
        before = read_clock() - ttl_seconds
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
        """Clears up after an earlier run, as `sweep_folder` does.

        To be called once, before anything is allocated and before any job runs again.
        """
        sweep_folder(self._database, self._folder, self._lost_dir)
        self._room.doubt()

    def count_lost_files(self) -> int:
        """How many files are in the folder of lost files."""
        return count_lost_files(self._lost_dir)

    def _describe_published(
        self, pending: PendingMatrix, digest_sha256: str | None, *, crc32: int | None, place: str
    ) -> Matrix:
        described = asdict(pending)
        described |= {
            "path": pending.path.with_suffix(".npy"),
            "digest_sha256": digest_sha256,
            "created_at": read_clock(),
            "crc32": crc32,
            "place": place,
        }
        return Matrix(**described)

    def _forget(self, matrix_id: str) -> None:
        """The row is gone: remove everything else of the matrix."""
        for tell in self.on_removed:
            tell(matrix_id)
        self.checks.forget(matrix_id)
        remove(self._locate(matrix_id))
        self.stored.note_removed(matrix_id)  # last: whoever begins to send it now finds nothing

    def _read_row(self, row: Row[Any]) -> Matrix:
        described = read_owner(dict(row._mapping))
        described["place"] = described["place"] or "disk"
        return Matrix(**described, path=self._locate(row.id))
