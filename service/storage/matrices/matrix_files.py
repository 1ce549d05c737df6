"""The files of matrices: planned, made, and named when they are whole.

A file is written as `<id>.part` and becomes `<id>.npy` when it is complete.
"""

import errno
import os
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from wavetrim.service.errors import BodyTooLarge
from wavetrim.service.storage.database.write_record import WriteRecord
from wavetrim.service.storage.disk.checksum import read_crc32
from wavetrim.service.storage.disk.disk_room import DiskRoom
from wavetrim.service.storage.disk.growth import find_next_length
from wavetrim.service.storage.disk.new_file import (
    explain,
    flush,
    make_empty,
    make_file,
    open_for_writing,
    remove,
    write_whole,
)
from wavetrim.service.storage.matrices.matrix import PendingMatrix, count_data_bytes
from wavetrim.service.storage.matrices.npy import (
    DISK_ALIGNMENT_BYTES,
    HEADER_ALIGNMENT_BYTES,
    format_header,
)

LARGE_BYTES: Final = 2**20
"""Smaller matrices are stored byte for byte as NumPy saves them; chosen."""


class MatrixFiles:
    """Makes and removes the files of matrices that are not published. Thread-safe.

    Args:
        folder: Has the files; made if it is missing.
        room: Counts what the files take of the disk.
        max_matrix_bytes: The largest .npy file that is stored.
        writes: Notes whether writing works.
    """

    def __init__(
        self, folder: Path, room: DiskRoom, *, max_matrix_bytes: int, writes: WriteRecord
    ) -> None:
        self._folder = folder
        self._room = room
        self._max_matrix_bytes = max_matrix_bytes
        self._writes = writes
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    def describe(
        self, rows: int, columns: int, dtype: str, *, fortran_order: bool = False, owner: str = ""
    ) -> tuple[PendingMatrix, bytes]:
        """A matrix that takes no room on disk yet, and its header.

        The header of a large one is padded, so that its elements go to the disk without a copy.

        Raises:
            BodyTooLarge: It would be larger than a matrix may be.
        """
        is_large = count_data_bytes(rows, columns, dtype) >= LARGE_BYTES
        header = format_header(
            rows,
            columns,
            dtype,
            fortran_order=fortran_order,
            alignment_bytes=DISK_ALIGNMENT_BYTES if is_large else HEADER_ALIGNMENT_BYTES,
        )
        pending = self._plan(rows, columns, dtype, header, fortran_order=fortran_order, owner=owner)
        return pending, header

    def allocate(
        self,
        rows: int,
        columns: int,
        dtype: str,
        *,
        fortran_order: bool = False,
        owner: str = "",
    ) -> PendingMatrix:
        """Makes a file of the final length, with its header, for the engine to write into.

        Args:
            rows: First size, at least 1.
            columns: Second size, at least 1.
            dtype: NumPy's name of the element type.
            fortran_order: True when the elements will lie column after column.
            owner: Name of the tenant to whom it will belong.

        Raises:
            BodyTooLarge: The file would be larger than one matrix may be.
            StorageFull: There is no room: by the setting, or on the disk.
        """
        header = format_header(rows, columns, dtype, fortran_order=fortran_order)
        pending = self._plan(rows, columns, dtype, header, fortran_order=fortran_order, owner=owner)
        size_bytes = pending.size_bytes
        try:
            self._room.take(pending.id, size_bytes)
            try:
                make_file(pending.path, size_bytes)
            finally:
                self.note_made(pending)
            with open_for_writing(pending.path) as file:
                write_whole(file, memoryview(header), 0)
        except OSError as error:
            self.discard(pending)
            raise self.explain(error, size_bytes) from error
        except BaseException:
            self.discard(pending)
            raise
        return pending

    def begin(
        self,
        rows: int,
        columns: int,
        dtype: str,
        *,
        fortran_order: bool = False,
        on_disk: bool = True,
        owner: str = "",
    ) -> tuple[PendingMatrix, bytes]:
        """Begins a matrix that is received bit by bit: room is taken as its file grows.

        `publish` or `release` ends it. Its file is made by `begin_file`, or by a `DiskWriter` that
        takes room with `extending`.

        Returns:
            The matrix, and its header.

        Raises:
            BodyTooLarge: The file would be larger than a matrix may be.
            StorageFull: The disk has no room for all of it.
        """
        pending, header = self.describe(
            rows, columns, dtype, fortran_order=fortran_order, owner=owner
        )
        if on_disk:
            self._room.begin(pending.id, pending.size_bytes)
        return pending, header

    def extending(self, pending: PendingMatrix, length_bytes: int) -> AbstractContextManager[None]:
        """Takes room for a file up to a length, to which it grows within the block.

        Raises:
            StorageFull: There is no room.
        """
        return self._room.extending(pending.id, pending.size_bytes, length_bytes)

    def begin_file(self, pending: PendingMatrix, header: bytes) -> None:
        """Makes the file of a matrix that is received bit by bit, for `write_part`.

        Raises:
            StorageFull: There is no room for it.
            StorageFailed: It cannot be made.
        """
        try:
            make_empty(pending.path)
        except OSError as error:
            raise self.explain(error, pending.size_bytes) from error
        self.write_part(pending, 0, memoryview(header))

    def write_part(self, pending: PendingMatrix, offset: int, content: memoryview) -> None:
        """Writes the next part of a matrix that is received bit by bit.

        Raises:
            StorageFull: There is no room for it.
            StorageFailed: It cannot be written.
        """
        try:
            with open_for_writing(pending.path) as file:
                made_bytes, end = os.fstat(file).st_size, offset + len(content)
                if end > made_bytes:
                    length = find_next_length(made_bytes, end, pending.size_bytes)
                    with self.extending(pending, length):
                        os.posix_fallocate(file, made_bytes, length - made_bytes)
                write_whole(file, content, offset)
        except OSError as error:
            raise self.explain(error, pending.size_bytes) from error

    def reserve(
        self, rows: int, columns: int, dtype: str, *, owner: str = ""
    ) -> tuple[PendingMatrix, bytes]:
        """Takes room for a matrix whose file a `DiskWriter` makes and writes.

        `note_made` must be called as soon as the file is made. `publish` with `durable` ends it, or
        `release` once the file is gone.

        Returns:
            The matrix, and its header.

        Raises:
            BodyTooLarge: The file would be larger than one matrix may be.
            StorageFull: There is no room: by the setting, or on the disk.
        """
        pending, header = self.describe(rows, columns, dtype, owner=owner)
        self._room.take(pending.id, pending.size_bytes)
        return pending, header

    def note_made(self, pending: PendingMatrix) -> None:
        """The file has its blocks on the disk, or will not be made."""
        self._room.note_made(pending.id)

    def discard(self, pending: PendingMatrix) -> None:
        """Removes a matrix that will not be published."""
        remove(pending.path)
        self._room.give(pending.id)

    def release(self, pending: PendingMatrix) -> None:
        """Takes no more room for a matrix that has no file (any more)."""
        self._room.give(pending.id)

    def explain(self, error: OSError, size_bytes: int) -> Exception:
        """The error for the caller of a failed write; the failure is noted for readiness, too."""
        if error.errno != errno.EFBIG:
            reason = error.strerror or str(error)
            self._writes.note_failure("data_dir", f"the last write failed ({reason})")
        return explain(error, self._folder, size_bytes)

    def count_stored_bytes(self) -> int:
        """Bytes of all matrices on disk, including those that are being written."""
        return self._room.count()

    def _plan(
        self,
        rows: int,
        columns: int,
        dtype: str,
        header: bytes,
        *,
        fortran_order: bool,
        owner: str,
    ) -> PendingMatrix:
        """A new matrix, without memory or file."""
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
            owner=owner,
        )

    def _name_file(
        self, pending: PendingMatrix, crc32: int | None, *, durable: bool
    ) -> tuple[os.stat_result, int | None]:
        """Gives a written file its name, so that it outlives a power cut.

        Args:
            pending: The matrix. It is discarded when this fails.
            crc32: CRC-32 of the whole file; None to read the file for it.
            durable: True if it has its name and is synced already.

        Returns:
            What the file system says of the file, and its CRC-32.

        Raises:
            StorageFull: The disk has no room after all.
        """
        path = self._locate(pending.id)
        try:
            if not durable:
                if crc32 is None:
                    crc32 = read_crc32(pending.path, pending.size_bytes)
                flush(pending.path)
                pending.path.rename(path)
                flush(self._folder)
            written = path.lstat()
        except OSError as error:
            remove(path)
            self.discard(pending)
            raise self.explain(error, pending.size_bytes) from error
        self._writes.note_success("data_dir")
        return written, crc32

    def _locate(self, matrix_id: str) -> Path:
        return self._folder / f"{matrix_id}.npy"
