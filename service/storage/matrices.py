"""The matrices: rows in the database, .npy files in a folder, mapped by the engine.

A file is written as `<id>.part` and becomes `<id>.npy` when it is complete; the row comes last. So
a row always has a whole file, and a file without a row is what a crash has left, or the spare file
for the next product.
"""

import errno
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, delete, func, insert, or_, select

from wavetrim.service.errors import BodyTooLarge, MatrixInUse, MatrixNotFound, StorageFull
from wavetrim.service.storage.database import reading
from wavetrim.service.storage.matrix import Matrix, PendingMatrix, count_data_bytes
from wavetrim.service.storage.new_file import flush, make_file, write_start
from wavetrim.service.storage.npy import format_header
from wavetrim.service.storage.spare import SpareFile
from wavetrim.service.storage.tables import jobs, matrices
from wavetrim.service.storage.temporary import TEMPORARY_PREFIX, forget_temporary

_UNFINISHED: Final = ("queued", "running")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class MatrixStore:
    """Stores, finds and removes matrices. Thread-safe.

    Args:
        database: Holds the rows.
        folder: Holds the files; made when it is missing.
        max_matrix_bytes: The largest .npy file that is stored.
        max_storage_bytes: The most that all files may take together.
    """

    def __init__(
        self, database: Engine, folder: Path, *, max_matrix_bytes: int, max_storage_bytes: int
    ) -> None:
        self._database = database
        self._folder = folder
        self._max_matrix_bytes = max_matrix_bytes
        self._max_storage_bytes = max_storage_bytes
        self._pending_bytes: dict[str, int] = {}
        self._lock = threading.Lock()
        self._spare = SpareFile(folder)
        folder.mkdir(parents=True, exist_ok=True)

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

    def allocate(
        self,
        rows: int,
        columns: int,
        dtype: str,
        *,
        fortran_order: bool = False,
        temporary: bool = False,
        spare: bool = False,
    ) -> PendingMatrix:
        """Makes a file of the final length, with its header, for the elements to be written to.

        Args:
            rows: First size, at least 1.
            columns: Second size, at least 1.
            dtype: NumPy's name of the element type.
            fortran_order: True when the elements will lie column after column.
            temporary: True for a matrix that the next start may remove.
            spare: True to take the spare file, if it is of this size.

        Raises:
            BodyTooLarge: The file would be larger than one matrix may be.
            StorageFull: There is no room: by the setting, or on the disk.
        """
        header = format_header(rows, columns, dtype, fortran_order=fortran_order)
        size_bytes = len(header) + count_data_bytes(rows, columns, dtype)
        if size_bytes > self._max_matrix_bytes:
            limit = f"at most {self._max_matrix_bytes} bytes (max_matrix_bytes)"
            raise BodyTooLarge("matrix size", size_bytes, limit)
        matrix_id = (TEMPORARY_PREFIX if temporary else "") + uuid.uuid4().hex[:30]
        pending = PendingMatrix(
            id=matrix_id,
            rows=rows,
            columns=columns,
            dtype=dtype,
            fortran_order=fortran_order,
            offset_bytes=len(header),
            size_bytes=size_bytes,
            path=self._folder / f"{matrix_id}.part",
            temporary=temporary,
        )
        taken = spare and self._spare.take(size_bytes, pending.path)
        try:
            self._reserve(pending)
            if not taken:
                self._make_file(pending)
            write_start(pending.path, header)
        except StorageFull:
            self.discard(pending)
            raise
        except OSError as error:
            self.discard(pending)
            if error.errno in _NO_ROOM:
                limit = f"within what {self._folder} has room for ({error.strerror})"
                raise StorageFull("matrix size", size_bytes, limit) from error
            raise
        return pending

    def publish(
        self,
        pending: PendingMatrix,
        digest_sha256: str | None = None,
        *,
        settle: Callable[[Connection], None] | None = None,
    ) -> Matrix:
        """Makes a written matrix findable under its id.

        Args:
            pending: The matrix; its elements are written and its file is closed.
            digest_sha256: SHA-256 of the whole file in hexadecimal, where it is known.
            settle: Changes more rows in the transaction that adds the matrix's; what it raises
                undoes the publication.
        """
        path = pending.path.with_suffix(".npy")
        if not pending.temporary:
            flush(pending.path)
        pending.path.rename(path)
        if not pending.temporary:
            flush(self._folder)
        described = asdict(pending)
        del described["path"], described["temporary"]
        matrix = Matrix(**described, digest_sha256=digest_sha256, created_at=time.time(), path=path)
        row = asdict(matrix)
        del row["path"]
        try:
            with self._database.begin() as connection:
                try:
                    connection.execute(insert(matrices).values(row))
                    if settle is not None:
                        settle(connection)
                except BaseException:
                    # Not after a failed commit: the row may be there, and only the answer lost.
                    path.unlink()
                    raise
        finally:
            self._release(pending.id)
        return matrix

    def discard(self, pending: PendingMatrix) -> None:
        """Removes a matrix that will not be published."""
        pending.path.unlink(missing_ok=True)
        self._release(pending.id)

    def make_spare(self, size_bytes: int) -> None:
        """Begins to make a file ahead for a next matrix of this size, if there is room for it."""
        with self._lock:
            if self._count_bytes() + size_bytes <= self._max_storage_bytes:
                self._spare.make(size_bytes)

    def close(self) -> None:
        """Removes the spare file."""
        self._spare.drop()

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
            if job_ids := _find_users(connection, matrix_id):
                raise MatrixInUse(matrix_id, job_ids)
            connection.execute(delete(matrices).where(matrices.c.id == matrix_id))
        self._locate(matrix_id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Removes what an earlier run has left: unfinished, unknown and temporary files.

        To be called once, before anything is allocated and before any job runs again.
        """
        with self._database.begin() as connection:
            forget_temporary(connection)
            known = set(connection.scalars(select(matrices.c.id)))
        for path in self._folder.iterdir():
            if path.suffix == ".part" or (path.suffix == ".npy" and path.stem not in known):
                path.unlink(missing_ok=True)

    def count_stored_bytes(self) -> int:
        """Bytes of all matrices, those still being written included; of the spare file none."""
        with self._lock:
            return self._count_bytes()

    def _reserve(self, pending: PendingMatrix) -> None:
        with self._lock:
            free = self._max_storage_bytes - self._count_bytes()
            if pending.size_bytes > free:
                limit = (
                    f"at most the {max(free, 0)} bytes left of {self._max_storage_bytes} "
                    "(max_storage_bytes)"
                )
                raise StorageFull("matrix size", pending.size_bytes, limit)
            if pending.size_bytes + self._spare.size_bytes > free:
                self._spare.drop()
            self._pending_bytes[pending.id] = pending.size_bytes

    def _make_file(self, pending: PendingMatrix) -> None:
        """Make the file; where the disk has no other room for it, in that of the spare one."""
        try:
            make_file(pending.path, pending.size_bytes)
        except OSError as error:
            if error.errno not in _NO_ROOM or self._spare.size_bytes == 0:
                raise
            self._spare.drop()
            make_file(pending.path, pending.size_bytes)

    def _release(self, matrix_id: str) -> None:
        with self._lock:
            self._pending_bytes.pop(matrix_id, None)

    def _count_bytes(self) -> int:
        with reading(self._database) as connection:
            stored = connection.scalar(select(func.coalesce(func.sum(matrices.c.size_bytes), 0)))
        return int(stored or 0) + sum(self._pending_bytes.values())

    def _locate(self, matrix_id: str) -> Path:
        return self._folder / f"{matrix_id}.npy"

    def _read_row(self, row: Row[Any]) -> Matrix:
        return Matrix(**row._mapping, path=self._locate(row.id))


def _find_users(connection: Connection, matrix_id: str) -> list[str]:
    names_it = or_(jobs.c.a == matrix_id, jobs.c.b == matrix_id, jobs.c.c == matrix_id)
    found = select(jobs.c.id).where(jobs.c.state.in_(_UNFINISHED), names_it)
    return list(connection.scalars(found.order_by(jobs.c.sequence)))
