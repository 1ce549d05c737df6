"""Drafts: matrices that are received or computed, until their rows say that they are stored.

A matrix's whole .npy file lies in one extent of the arena, and is written to disk meanwhile. It
stays there when it is stored, as its own cache. If the arena has no memory, it lies in the mapped
file that it becomes, which is named `<id>.npy` when it is complete.
"""

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio import CancelScope

from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.shared_commits import Change
from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES, FileWrite
from wavetrim.service.storage.disk.files import remove
from wavetrim.service.storage.disk.unsynced_files import write_file
from wavetrim.service.storage.matrices.intake import Fill, Step, receive_body
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.npy import Layout
from wavetrim.service.storage.memory.arena import ArenaFull
from wavetrim.service.storage.memory.extent import Hold
from wavetrim.service.storage.memory.mapped_file import MappedFile, map_file
from wavetrim.service.threads import await_end, finish, run_to_end

if TYPE_CHECKING:
    from wavetrim.service.storage.matrices.matrices import MatrixStore

R = TypeVar("R")


async def begin_draft(store: "MatrixStore", matrix: Matrix) -> "Draft":
    """Begin a matrix that is computed.

    One that should be in memory only is stored on disk, as others are, if the arena has no memory
    for it: nobody is there any more who could be refused.

    Raises:
        StorageFull: There is no space on disk.
    """
    try:
        return await receive_draft(store, matrix)
    except ArenaFull:
        return await receive_draft(store, replace(matrix, on_disk=True))


async def receive_draft(store: "MatrixStore", matrix: Matrix, fill: Fill | None = None) -> "Draft":
    """Receive a matrix into memory that grows with it, and write it to disk meanwhile.

    Args:
        store: Where it will be stored.
        matrix: From `MatrixStore.describe`.
        fill: Receives its next bytes, without a header; None for a matrix that is computed.

    Raises:
        StorageFull: There is no space for it.
        StorageFailed: Its file cannot be written.
        Exception: What `fill` has raised. Nothing of the matrix is left then.
    """
    draft = Draft(store, matrix)
    head = matrix.format_header(stored=True)
    try:
        await run_to_end(store.stored.begin, matrix)
        if fill is None:
            draft.begin(await draft.obtain(matrix.size_bytes))
            draft.view[: len(head)] = head
        else:
            await receive_body(
                matrix.size_bytes, fill, obtain=draft.obtain, begin=draft.begin, head=head
            )
    except BaseException:
        await draft.discard()
        raise
    return draft


class Draft:
    """A matrix that is not stored yet, in the arena or in the mapped file that it will be.

    From the arena it is written to its file in pieces, as they are received or
    their rows become final (`write_final`), and then the rest. What comes first of `publish` and
    `discard` ends it.

    Args:
        store: Where it will be stored.
        matrix: Its description, with its id.

    Attributes:
        matrix: As given.
        hold: Its memory with the header, once it has begun.
        view: Memory of its whole .npy file.
        file: Its file that is being written, if it has one.
        content: The bytes of a small one, whose file is written as a whole when it is published.
            They are committed with its row, as the file is not synced. None for others.
        has_ended: Whether it was published or discarded, or is being so.
    """

    def __init__(self, store: "MatrixStore", matrix: Matrix) -> None:
        self.matrix = matrix
        self.hold: Hold
        self.view = memoryview(b"")
        self.file: FileWrite | None = None
        self.content: memoryview | None = None
        self.has_ended = False
        self._store = store

    async def obtain(self, size_bytes: int) -> Hold:
        """Memory for it, or for its first bytes: in the arena, or in a file if it has one.

        Raises:
            ArenaFull: There is none, and it should be in memory only.
            StorageFull: The disk has no space either.
        """
        making = partial(self._store.stored.making, self.matrix)
        make_file = partial(map_file, holder="storage", folder=self._store.folder, making=making)
        otherwise = make_file if self.matrix.on_disk else None
        return await self._store.arena.obtain(size_bytes, "storage", otherwise)

    def begin(self, hold: Hold) -> Step:
        """Take its memory, which belongs to the draft from now on, and begin its file.

        Returns:
            To be called when it was received from a begin to an end.
        """
        self.hold, self.view = hold, hold.extent.view
        if self.matrix.on_disk and not isinstance(hold.extent, MappedFile):
            if self._store.unsynced.takes(self.matrix.size_bytes):
                self.content = self.view
            else:
                self.file = self._begin_file()
        return self._write_received

    async def _write_received(self, begin: int, end: int) -> None:
        """Have bytes written to disk, from the piece in which the first one lies.

        Raises:
            StorageFull: The disk has no space.
            StorageFailed: It cannot be written.
        """
        self._write(range(begin // WRITE_BYTES, end // WRITE_BYTES))
        if self.file is not None and self.file.error is not None:
            raise self._explain(self.file.error)

    def write_final(self, final: Sequence[range]) -> None:
        """Have pieces written whose rows are final.

        Args:
            final: All final rows.
        """
        for rows in final:
            self._write(find_pieces(self.matrix, rows))

    def _write(self, pieces: range) -> None:
        """Have pieces written; what comes while the writer is full is left to a later call."""
        for piece in pieces:
            if self.file is not None and not self._store.writer.is_full:
                self.file.write(piece)

    def begin_anew(self) -> None:
        """All rows will be computed again: a file that has some of them is replaced by a new one.

        The writer does its tasks in order, so the old file is gone when the new one is made.
        """
        if self.file is not None and self.file.is_begun:
            self.file.abort()
            self.file = self._begin_file()

    async def publish(
        self, digest_sha256: str | None = None, *, settle: Change[R] | None = None
    ) -> tuple[Matrix, R | None]:
        """Publish it, when all of it is final; if it is kept on disk, it is then durable.

        Args:
            digest_sha256: SHA-256 of its .npy file, in hexadecimal, if it is known.
            settle: Changes more rows in the transaction that adds the matrix's row; if it raises,
                nothing is added.

        Returns:
            The matrix, and what `settle` has returned; None if the answer to its commit was lost.

        Raises:
            StorageFull: The disk has no space after all.
            StorageFailed: The file cannot be written.
            CommitUnclear: The row may exist or not: `MatrixRows.resolve_unclear` decides.
            Exception: What `settle` or the database raised; neither row nor file exists.
        """
        store = self._store
        try:
            crc32 = await self._finish()
            written = self.matrix.path.lstat() if self.matrix.on_disk else None
        except BaseException as error:
            await self.discard()
            raise self._explain(error) from error
        self.has_ended, now = True, read_clock()
        matrix = replace(self.matrix, crc32=crc32, digest_sha256=digest_sha256, created_at=now)
        if written is not None:
            store.stored.failure = None
        try:
            if not isinstance(self.hold.extent, MappedFile):
                # This comes before its row: whoever sees that may delete it, also from here.
                store.cache.add(matrix.id, self.hold, on_disk=matrix.on_disk)
            settled = await finish(store.rows.add(matrix, self.content, settle))
        except BaseException:
            store.cache.drop(matrix.id)
            raise
        finally:
            self.hold.release()
        if written is not None:
            store.checks.note_intact(matrix.id, written)
        store.remember(matrix)
        return matrix, settled

    async def discard(self) -> None:
        """Give the matrix up, unless it has ended: nothing of it is left then."""
        if self.has_ended:
            return
        self.has_ended = True
        if self.file is not None:
            with CancelScope(shield=True):  # until then its memory is read
                await asyncio.wait({asyncio.wrap_future(self.file.abort())})
        if self.content is not None:
            await run_to_end(remove, self.matrix.path)
        if self.view:
            self.hold.release()
        self._store.stored.note_discarded(self.matrix.id)

    def _begin_file(self) -> FileWrite:
        return FileWrite(
            self._store.writer,
            self.matrix.unfinished,
            self.view,
            making=partial(self._store.stored.making, self.matrix),
        )

    async def _finish(self) -> int | None:
        """Give its file its name, durable unless its bytes are committed with its row.

        Returns:
            The CRC-32 of the file; None without one.
        """
        if isinstance(self.hold.extent, MappedFile):
            return await run_to_end(self.hold.extent.finish, self.matrix.path)
        if self.content is not None:
            return await await_end(self._store.writer.add(self._write_small))
        if self.file is None:
            return None
        for piece in range(self.file.piece_count):
            written = self.file.write(piece)
            if self._store.writer.is_full:
                await asyncio.wrap_future(written)
        return await asyncio.shield(asyncio.wrap_future(self.file.finish(self.matrix.path)))

    def _write_small(self) -> int:
        with self._store.stored.making(self.matrix, self.matrix.size_bytes):
            write_file(self.matrix.path, self.view, syncs=False)
        return zlib.crc32(self.view)

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, OSError):
            return self._store.stored.explain(error, self.matrix.size_bytes)
        return error


def find_pieces(matrix: Layout, rows: range) -> range:
    """The pieces of a file, `WRITE_BYTES` each, that hold bytes of these rows and no others.

    The header counts to the first row, the end of the file to the last one.

    Args:
        matrix: A matrix or a stack whose rows are contiguous.
        rows: Some of its rows, at least one; those of a stack's matrices are counted through.
    """
    row_bytes = matrix.data_bytes // matrix.all_rows
    begin = matrix.offset_bytes + rows.start * row_bytes if rows.start else 0
    end = matrix.offset_bytes + rows.stop * row_bytes
    last = -(-end // WRITE_BYTES) if rows.stop == matrix.all_rows else end // WRITE_BYTES
    return range(-(-begin // WRITE_BYTES), last)
