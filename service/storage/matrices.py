"""The matrices: rows in the database, .npy files in a folder, mapped by the engine.

A file is written as `<id>.part` and becomes `<id>.npy` when it is complete; the row comes last. So
a row always has a whole file, and a file without a row is what a crash has left, or a sign of a
lost database.
"""

import errno
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, delete, select

from wavetrim.service.errors import (
    BodyTooLarge,
    MatrixInUse,
    MatrixNotFound,
    StorageFull,
)
from wavetrim.service.storage.checksum import read_crc32
from wavetrim.service.storage.database import reading
from wavetrim.service.storage.disk_room import DiskRoom
from wavetrim.service.storage.file_checks import FileChecks
from wavetrim.service.storage.listing import find_users, read_page, remove_unused
from wavetrim.service.storage.lost import LOST_FOLDER, count_lost_files, set_aside
from wavetrim.service.storage.matrix import Matrix, PendingMatrix, count_data_bytes
from wavetrim.service.storage.new_file import flush, make_file, write_start
from wavetrim.service.storage.npy import DISK_ALIGNMENT_BYTES, format_header
from wavetrim.service.storage.publication import CommitUnclear, add_row, has_row
from wavetrim.service.storage.tables import matrices
from wavetrim.service.storage.temporary import TEMPORARY_PREFIX, forget_temporary
from wavetrim.service.storage.write_record import WriteRecord

logger = logging.getLogger(__name__)

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class MatrixStore:
    """Stores, finds and removes matrices. Thread-safe.

    Args:
        database: Holds the rows.
        folder: Holds the files; made when it is missing. Beside it, `lost` holds those that no row
            names.
        max_matrix_bytes: The largest .npy file that is stored.
        max_storage_bytes: The most that all files may take together.
        reserve_bytes: What the file system must have left beside them.
        writes: Is told how writing went.

    Attributes:
        on_removed: Called with the id of each matrix that is removed.
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
        self._database = database
        self._folder = folder
        self._lost_dir = folder.parent / LOST_FOLDER
        self._max_matrix_bytes = max_matrix_bytes
        self._room = DiskRoom(
            database, folder, max_storage_bytes=max_storage_bytes, reserve_bytes=reserve_bytes
        )
        self._writes = writes or WriteRecord()
        self._unclear: dict[str, Matrix] = {}
        self._checks = FileChecks(database)
        self.on_removed: Callable[[str], None] = lambda _matrix_id: None
        folder.mkdir(parents=True, exist_ok=True)

    def describe(
        self, rows: int, columns: int, dtype: str, *, fortran_order: bool = False
    ) -> tuple[PendingMatrix, bytes]:
        """A matrix that takes no room on the disk, and its padded header.

        Raises:
            BodyTooLarge: It would be larger than one matrix may be.
        """
        header = format_header(
            rows, columns, dtype, fortran_order=fortran_order, alignment_bytes=DISK_ALIGNMENT_BYTES
        )
        return self._plan(rows, columns, dtype, header, fortran_order=fortran_order), header

    @property
    def checks(self) -> FileChecks:
        """Whether the files are as they were stored."""
        return self._checks

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    def get(self, matrix_id: str) -> Matrix:
        """The matrix with this id.

        Raises:
            MatrixNotFound: There is none.
        """
        with reading(self._database) as connection:
            row = connection.execute(select(matrices).where(matrices.c.id == matrix_id)).first()
        if row is None:
            raise MatrixNotFound(matrix_id)
        return self._read_row(row)

    def page(
        self, *, limit: int = 50, cursor: str | None = None
    ) -> tuple[tuple[tuple[Matrix, tuple[str, ...]], ...], str | None]:
        """Reads some matrices, newest first.

        Args:
            limit: The most matrices to return.
            cursor: Where an earlier page ended.

        Returns:
            The matrices, each with the ids of the unfinished jobs that use it, and the cursor of
            the next page (None after the last one).

        Raises:
            CursorUnknown: The cursor was not made by this method.
        """
        rows, users, next_cursor = read_page(self._database, limit=limit, cursor=cursor)
        shown = ((self._read_row(row), tuple(users.get(row.id, ()))) for row in rows)
        return tuple(shown), next_cursor

    def allocate(
        self,
        rows: int,
        columns: int,
        dtype: str,
        *,
        fortran_order: bool = False,
    ) -> PendingMatrix:
        """Makes a file of the final length, with its header, for the elements to be written to.

        Args:
            rows: First size, at least 1.
            columns: Second size, at least 1.
            dtype: NumPy's name of the element type.
            fortran_order: True when the elements will lie column after column.

        Raises:
            BodyTooLarge: The file would be larger than one matrix may be.
            StorageFull: There is no room: by the setting, or on the disk.
        """
        header = format_header(rows, columns, dtype, fortran_order=fortran_order)
        pending = self._plan(rows, columns, dtype, header, fortran_order=fortran_order)
        size_bytes = pending.size_bytes
        try:
            self._room.take(pending.id, size_bytes)
            try:
                make_file(pending.path, size_bytes)
            finally:
                self.note_made(pending)
            write_start(pending.path, header)
        except OSError as error:
            self.discard(pending)
            raise self.explain(error, size_bytes) from error
        except BaseException:
            self.discard(pending)
            raise
        return pending

    def reserve(
        self, rows: int, columns: int, dtype: str, *, fortran_order: bool = False
    ) -> tuple[PendingMatrix, bytes]:
        """Takes room for a matrix whose file a `DiskWriter` makes and writes.

        As soon as the file is made, `note_made` must be told; then `publish` with `durable`, or
        `discard`, ends it.

        Returns:
            The matrix, and its header, padded so that the elements begin at a multiple of 4096.

        Raises:
            BodyTooLarge: The file would be larger than one matrix may be.
            StorageFull: There is no room: by the setting, or on the disk.
        """
        pending, header = self.describe(rows, columns, dtype, fortran_order=fortran_order)
        self._room.take(pending.id, pending.size_bytes)
        return pending, header

    def note_made(self, pending: PendingMatrix) -> None:
        """The file has its blocks on the disk, or will not be made."""
        self._room.note_made(pending.id)

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
        path = pending.path.with_suffix(".npy")
        try:
            if not durable:
                crc32 = self._make_durable(pending, path, crc32)
            written = path.stat()
        except OSError as error:
            path.unlink(missing_ok=True)
            self.discard(pending)
            raise self.explain(error, pending.size_bytes) from error
        matrix = self._describe_published(pending, digest_sha256, crc32=crc32, place="disk")
        self._writes.note_success("data_dir")
        try:
            add_row(self._database, _describe_row(matrix), settle)
        except CommitUnclear:
            # Its bytes stay counted until the row has decided.
            self._unclear[matrix.id] = matrix
            raise
        except BaseException:
            path.unlink(missing_ok=True)
            self._room.give(pending.id)
            raise
        self._room.give(pending.id)
        self._checks.note_intact(matrix.id, written)
        return matrix

    def publish_in_memory(
        self,
        pending: PendingMatrix,
        digest_sha256: str | None = None,
        *,
        settle: Callable[[Connection], None] | None = None,
    ) -> Matrix:
        """Makes a matrix findable that lies in memory only, until the service ends.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The row could not be added.
        """
        matrix = self._describe_published(pending, digest_sha256, crc32=None, place="memory")
        add_row(self._database, _describe_row(matrix), settle)
        return matrix

    def settle_unclear(self) -> None:
        """Ends the publications whose commit was not answered: the row decides.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer; they stay unclear.
        """
        for matrix in list(self._unclear.values()):
            if not has_row(self._database, _describe_row(matrix)):
                logger.warning("matrix %s was not committed: its file is removed", matrix.id)
                matrix.path.unlink(missing_ok=True)
            del self._unclear[matrix.id]
            self._room.give(matrix.id)

    def discard(self, pending: PendingMatrix) -> None:
        """Removes a matrix that will not be published."""
        pending.path.unlink(missing_ok=True)
        self._room.give(pending.id)

    def delete(self, matrix_id: str) -> None:
        """Removes a matrix. Whoever reads its file at this moment reads on undisturbed.

        Raises:
            MatrixNotFound: There is none with this id.
            MatrixInUse: A queued or running job names it as an operand.
        """
        with self._database.begin() as connection:
            found = select(matrices.c.id).where(matrices.c.id == matrix_id).with_for_update()
            if connection.execute(found).first() is None:
                raise MatrixNotFound(matrix_id)
            if job_ids := find_users(connection, [matrix_id]).get(matrix_id):
                raise MatrixInUse(matrix_id, job_ids)
            connection.execute(delete(matrices).where(matrices.c.id == matrix_id))
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
        removed = []
        for batch in remove_unused(self._database, before):
            for matrix_id in batch:
                self._forget(matrix_id)
            removed += batch
        return removed

    def sweep(self) -> None:
        """Clears up after an earlier run.

        Only what is proved to be unfinished is removed: partial and temporary files. A matrix that
        the database does not know goes to `lost_dir`.

        To be called once, before anything is allocated and before any job runs again.
        """
        with self._database.begin() as connection:
            forgotten = forget_temporary(connection)
            connection.execute(delete(matrices).where(matrices.c.place == "memory"))
            known = set(connection.scalars(select(matrices.c.id)))
        lost = 0
        for path in list(self._folder.iterdir()):
            temporary = path.stem in forgotten or path.name.startswith(TEMPORARY_PREFIX)
            if path.suffix == ".part" or (path.suffix == ".npy" and temporary):
                path.unlink(missing_ok=True)
            elif path.suffix == ".npy" and path.stem not in known:
                lost += set_aside(path, self._lost_dir) is not None
        if lost:
            logger.warning(
                "%d matrices that the database does not know were moved to %s; "
                "`wavetrim adopt` takes them in again",
                lost,
                self._lost_dir,
            )

    def count_lost_files(self) -> int:
        """How many files wait in `lost_dir`."""
        return count_lost_files(self._lost_dir)

    def count_stored_bytes(self) -> int:
        """Bytes of all matrices, those still being written included."""
        return self._room.count()

    def _describe_published(
        self, pending: PendingMatrix, digest_sha256: str | None, *, crc32: int | None, place: str
    ) -> Matrix:
        described = asdict(pending)
        described |= {
            "path": pending.path.with_suffix(".npy"),
            "digest_sha256": digest_sha256,
            "created_at": time.time(),
            "crc32": crc32,
            "place": place,
        }
        return Matrix(**described)

    def _plan(
        self,
        rows: int,
        columns: int,
        dtype: str,
        header: bytes,
        *,
        fortran_order: bool,
    ) -> PendingMatrix:
        """A new matrix, of which there is nothing yet."""
        size_bytes = len(header) + count_data_bytes(rows, columns, dtype)
        if size_bytes > self._max_matrix_bytes:
            limit = f"at most {self._max_matrix_bytes} bytes (max_matrix_bytes)"
            raise BodyTooLarge("matrix size", size_bytes, limit)
        matrix_id = uuid.uuid4().hex[:30]
        return PendingMatrix(
            id=matrix_id,
            rows=rows,
            columns=columns,
            dtype=dtype,
            fortran_order=fortran_order,
            offset_bytes=len(header),
            size_bytes=size_bytes,
            path=self._folder / f"{matrix_id}.part",
        )

    def _make_durable(self, pending: PendingMatrix, path: Path, crc32: int | None) -> int | None:
        """Give a written file its name, so that it outlives a power cut; returns its CRC-32."""
        if crc32 is None:
            crc32 = read_crc32(pending.path, pending.size_bytes)
        flush(pending.path)
        pending.path.rename(path)
        flush(self._folder)
        return crc32

    def explain(self, error: OSError, size_bytes: int) -> Exception:
        """The error of a failed write, as the caller is told; readiness is told, too."""
        if error.errno != errno.EFBIG:
            reason = error.strerror or str(error)
            self._writes.note_failure("data_dir", f"the last write failed ({reason})")
        if error.errno not in _NO_ROOM:
            return error
        limit = f"within what {self._folder} has room for ({error.strerror})"
        return StorageFull("matrix size", size_bytes, limit)

    def release(self, pending: PendingMatrix) -> None:
        """Takes no more room for a matrix that has no file (any more)."""
        self._room.give(pending.id)

    def _forget(self, matrix_id: str) -> None:
        """The row is gone: nothing else of the matrix stays."""
        self.on_removed(matrix_id)
        self._checks.forget(matrix_id)
        self._locate(matrix_id).unlink(missing_ok=True)

    def _locate(self, matrix_id: str) -> Path:
        return self._folder / f"{matrix_id}.npy"

    def _read_row(self, row: Row[Any]) -> Matrix:
        described = dict(row._mapping)
        described["place"] = described["place"] or "disk"
        return Matrix(**described, path=self._locate(row.id))


def _describe_row(matrix: Matrix) -> dict[str, Any]:
    row = asdict(matrix)
    del row["path"]
    return row
