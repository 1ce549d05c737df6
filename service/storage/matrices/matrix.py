"""The description of a matrix, the same before and after it is stored, and checks of its file.

To check whether a file is as it was stored all of it must be read. A matrix that many jobs use is
read once: while inode, length and times of its file stay the same, it has not changed.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, select, update
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.files import NotRegular, compute_crc32, open_regular
from wavetrim.service.storage.errors import MatrixDamaged, MatrixNotFound, StorageFailed
from wavetrim.service.storage.matrices.npy import Layout
from wavetrim.service.storage.memory.extent import Extent

logger = logging.getLogger(__name__)

_MOST_FILES: Final = 4096
"""Intact files that are remembered; chosen."""

Signature = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix(Layout):
    """A matrix, or a stack of matrices, as a .npy file. Once it is stored it never changes.

    Attributes:
        id: Opaque id.
        size_bytes: Length of the whole .npy file.
        path: The .npy file.
        owner: Name of the tenant to whom it belongs.
        digest_sha256: SHA-256 of the whole file in hexadecimal, if it is known.
        created_at: When it was stored, in UTC seconds since the epoch.
        crc32: CRC-32 of the whole file; None if an earlier version stored it.
        on_disk: Whether it has a file; otherwise it is in memory only.
        damaged_at: When the file was found to have changed, in UTC seconds; None if it was not.
    """

    id: str
    size_bytes: int
    path: Path
    owner: str = ""
    digest_sha256: str | None = None
    created_at: float = 0.0
    crc32: int | None = None
    on_disk: bool = True
    damaged_at: float | None = None

    @property
    def unfinished(self) -> Path:
        """Its file while it is written."""
        return self.path.with_suffix(".part")

    @property
    def etag(self) -> str:
        """A strong entity tag: a matrix never changes, so its id is enough."""
        return f'"{self.id}"'

    def locate(self, extent: Extent | None = None) -> Operand:
        """Where the engine finds the elements: in memory, or in the file."""
        if extent is None:
            return self.address(str(self.path), self.offset_bytes)
        return self.address(extent.slab, extent.offset_bytes + self.offset_bytes)


class FileChecks:
    """Opens and checks files, and remembers the latest that were intact. Thread-safe.

    Args:
        database: Where damaged matrices are marked.
        on_damaged: Called with the id of one, from any thread.

    Attributes:
        intact: Signatures of the files that were intact, by the matrices' ids.
    """

    def __init__(self, database: Engine, *, on_damaged: Callable[[str], None]) -> None:
        self._database = database
        self._on_damaged = on_damaged
        self.intact = LastUsed[str, Signature](_MOST_FILES)

    def note_intact(self, matrix_id: str, found: os.stat_result) -> None:
        """A matrix's file is intact. `found` is from before it was read, or after it was written.

        So a change meanwhile is noticed.
        """
        self.intact.keep(matrix_id, _sign(found))

    def open_file(self, matrix: Matrix) -> int:
        """Opens a matrix's file for reading, which then goes on even if the matrix is removed.

        Returns:
            Its descriptor. Its contents are not checked: see `verify`.

        Raises:
            MatrixDamaged: The file is gone, is no regular file, or has another length.
            MatrixNotFound: The matrix was deleted meanwhile.
            StorageFailed: The folder of all files is away, or the system does not open the file.
        """
        if matrix.damaged_at is not None:
            raise MatrixDamaged(matrix.id, "found before")
        folder = matrix.path.parent
        try:
            file = open_regular(matrix.path)
        except FileNotFoundError as error:
            if not folder.is_dir():  # it may come back, with all its files
                raise StorageFailed(folder, "it is away") from error
            with reading(self._database) as connection:
                row = connection.scalar(select(matrices.c.id).where(matrices.c.id == matrix.id))
            if row is None:
                raise MatrixNotFound(matrix.id) from None
            raise self.mark_damaged(matrix, "its file is missing") from None
        except NotRegular as error:
            raise self.mark_damaged(matrix, str(error.strerror)) from error
        except OSError as error:
            raise StorageFailed(folder, error.strerror or str(error)) from error
        length = os.fstat(file).st_size
        if length != matrix.size_bytes:
            os.close(file)
            raise self.mark_damaged(matrix, f"its file has {length} bytes")
        return file

    def sign(self, matrix: Matrix) -> Signature | None:
        """The signature of a matrix's file, which changes with the file; None without a file."""
        try:
            return _sign(matrix.path.lstat())
        except OSError:
            return None

    def verify(self, matrix: Matrix, file: int | None = None) -> Signature:
        """Reads all of a matrix's file and compares its CRC-32, unless it is known to be intact.

        Args:
            matrix: The matrix.
            file: Its open file; None to open and close it here.

        Returns:
            The signature of the file, as `sign` returns it.

        Raises:
            MatrixDamaged: The file is not as it was stored; the matrix is marked.
            MatrixNotFound: The matrix was deleted meanwhile.
        """
        opened = self.open_file(matrix) if file is None else file
        try:
            found = os.fstat(opened)
            known = self.intact.find(matrix.id) == _sign(found)
            if not known and matrix.crc32 is not None:
                self.judge(matrix, compute_crc32(opened, matrix.size_bytes))
                self.note_intact(matrix.id, found)
            return _sign(found)
        finally:
            if file is None:
                os.close(opened)

    def read(self, matrix: Matrix, view: memoryview) -> None:
        """Reads a matrix's file into memory of its size, and checks its CRC-32 meanwhile.

        Raises:
            MatrixDamaged: The file is not as it was stored; the matrix is marked.
        """
        file = self.open_file(matrix)
        try:
            self.judge(matrix, compute_crc32(file, matrix.size_bytes, view))
        finally:
            os.close(file)

    def judge(self, matrix: Matrix, crc32: int | None) -> None:
        """Compares the CRC-32 of a whole file, as it was read, with the stored one.

        Args:
            matrix: The matrix.
            crc32: Its CRC-32; None if the file has become shorter.

        Raises:
            MatrixDamaged: They differ; the matrix is marked.
        """
        if crc32 is None:
            raise self.mark_damaged(matrix, "its file has become shorter")
        if matrix.crc32 not in (None, crc32):
            reason = f"its file has the CRC-32 {crc32:08x}; it was stored with {matrix.crc32:08x}"
            raise self.mark_damaged(matrix, reason)

    def mark_damaged(self, matrix: Matrix, reason: str) -> MatrixDamaged:
        """Marks a matrix as damaged, for good; returns the error to raise."""
        logger.error("matrix %s is damaged: %s", matrix.id, reason)
        self.intact.drop(matrix.id)
        change = update(matrices).where(matrices.c.id == matrix.id)
        try:
            with self._database.begin() as connection:
                connection.execute(change.values(damaged_at=read_clock()))
        except SQLAlchemyError:
            logger.exception("matrix %s cannot be marked", matrix.id)
        self._on_damaged(matrix.id)
        return MatrixDamaged(matrix.id, reason)


def _sign(found: os.stat_result) -> Signature:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
