"""Matrices that are kept: received or computed in the arena, and written to disk meanwhile.

A matrix's whole .npy file lies in one extent, its header padded so that the elements begin at a
multiple of 4096 there and on disk. It stays in the arena when it is published, as its own cache.
If the arena has no room, mapped files are used instead.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial

from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.errors import ArenaFull, ArenaOff
from wavetrim.service.storage.arena.extent import Hold
from wavetrim.service.storage.disk.checksum import PIECE_BYTES, update_crc32
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.disk.file_write import FileWrite
from wavetrim.service.storage.matrices.draft import Draft
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix, PendingMatrix
from wavetrim.service.storage.matrices.publication import Settle
from wavetrim.service.storage.matrices.residents import Residents
from wavetrim.service.storage.memory.intake import Intake
from wavetrim.service.threads import run_to_end


class KeptMatrices:
    """Brings matrices into the arena and from there to disk.

    To be used from one event loop.

    Args:
        store: Files and rows.
        arena: Where matrices lie; None if it is switched off.
        residents: The stored matrices that lie there.
        writer: Writes them.
    """

    def __init__(
        self, store: MatrixStore, arena: Arena | None, residents: Residents, writer: DiskWriter
    ) -> None:
        self._store = store
        self._arena = arena
        self._residents = residents
        self._writer = writer
        store.on_removed.append(residents.drop)
        if arena is not None:
            arena.add_evictor(residents.evict)

    async def begin(
        self,
        rows: int,
        columns: int,
        dtype: str,
        *,
        on_disk: bool = True,
        owner: str = "",
    ) -> Draft | None:
        """Begin a matrix that is computed in the arena.

        Returns:
            The draft, which `publish` or its `discard` ends. None if the arena has no room and the
            matrix may be a mapped file instead.

        Raises:
            BodyTooLarge: It would be larger than a matrix may be.
            StorageFull: There is no room on disk; or none in memory, for a matrix that is kept
                only there.
        """
        if on_disk:
            pending, header = await run_to_end(
                self._store.reserve, rows, columns, dtype, owner=owner
            )
        else:
            pending, header = self._store.describe(rows, columns, dtype, owner=owner)
        try:
            hold = await self._obtain(pending.size_bytes, on_disk=on_disk)
        except BaseException:
            self._store.release(pending)
            raise
        if hold is None:
            self._store.release(pending)
            return None
        return Draft(pending, header, hold, self._begin_file if on_disk else None)

    def open_intake(self, pending: PendingMatrix) -> Intake:
        """Memory of the arena for a matrix that is received; for `begin_received`."""
        return Intake(self._arena, pending.size_bytes, "storage", begin_bytes=pending.offset_bytes)

    def begin_received(
        self, pending: PendingMatrix, header: bytes, hold: Hold, *, on_disk: bool
    ) -> Draft:
        """Begin a matrix that is received bit by bit; its file grows with it.

        Args:
            pending: From the store's `begin`.
            header: The first bytes of its file.
            hold: Its memory, which belongs to the draft from now on.
            on_disk: False if it stays in memory.
        """
        return Draft(pending, header, hold, self._begin_growing_file if on_disk else None)

    def expect_written(self, draft: Draft) -> None:
        """Make sure that no write of a draft has failed so far.

        Raises:
            StorageFull: The disk has no room.
            StorageFailed: The file cannot be written.
        """
        error = None if draft.file is None else draft.file.error
        if isinstance(error, OSError):
            raise self._store.explain(error, draft.pending.size_bytes) from error
        if error is not None:
            raise error

    async def publish(
        self,
        draft: Draft,
        digest_sha256: str | None = None,
        *,
        settle: Settle | None = None,
    ) -> Matrix:
        """Publish a draft whose bytes are all written; if it is kept on disk, it is then durable.

        Args:
            draft: The matrix. It is discarded when this fails.
            digest_sha256: SHA-256 of its .npy file, in hexadecimal, if it is known.
            settle: Changes more rows in the transaction that adds the matrix's row.

        Raises:
            StorageFull: The disk has no room after all.
            StorageFailed: The file cannot be written.
        """
        on_disk = draft.file is not None
        publish: Callable[..., Matrix] = self._store.publish_in_memory
        if on_disk:
            crc32 = await self._finish(draft)
            publish = partial(self._store.publish, crc32=crc32, durable=True)
        # This comes before its row: whoever sees that may delete the matrix, also from here.
        self._residents.add(draft.pending.id, draft.hold, on_disk=on_disk)
        try:
            return await run_to_end(publish, draft.pending, digest_sha256, settle=settle)
        except BaseException:
            self._residents.drop(draft.pending.id)  # the store takes care of the file
            raise
        finally:
            draft.hold.release()

    def take(self, matrix: Matrix, holder: str) -> Hold | None:
        """A hold of a matrix if it is in the arena, else None."""
        return self._residents.take(matrix.id, holder)

    async def load(self, matrix: Matrix, holder: str) -> Hold | None:
        """A hold of a matrix in the arena, into which it is read if necessary.

        Returns:
            None if the arena has no room for it.

        Raises:
            MatrixDamaged: Its file has changed since it was stored.
        """
        hold = self._residents.take(matrix.id, holder)
        if hold is not None or matrix.place != "disk":
            return hold
        hold = await self._obtain(matrix.size_bytes, on_disk=True)
        if hold is None:
            return None
        try:
            await run_to_end(self._read, matrix, hold.extent.view)
        except BaseException:
            hold.release()
            raise
        self._residents.add(matrix.id, hold, on_disk=True)
        return hold

    async def _obtain(self, size_bytes: int, *, on_disk: bool) -> Hold | None:
        if self._arena is not None:
            try:
                return await self._arena.obtain(size_bytes, "storage")
            except ArenaFull:
                if not on_disk:
                    raise
        elif not on_disk:
            raise ArenaOff(size_bytes)
        return None

    def _begin_file(self, pending: PendingMatrix) -> FileWrite:
        file = self._writer.begin(pending.path, pending.size_bytes)
        file.made.add_done_callback(lambda _: self._store.note_made(pending))
        return file

    def _begin_growing_file(self, pending: PendingMatrix) -> FileWrite:
        extending = partial(self._store.extending, pending)
        return self._writer.begin(pending.path, pending.size_bytes, extending=extending)

    async def _finish(self, draft: Draft) -> int:
        """Make a draft's file durable under its name; returns its CRC-32."""
        assert draft.file is not None, "only a draft with a file is finished"
        name = draft.pending.path.with_suffix(".npy")
        try:
            return await asyncio.shield(asyncio.wrap_future(draft.file.finish(name)))
        except BaseException as error:
            draft.discard()
            self._store.release(draft.pending)
            if isinstance(error, OSError):
                raise self._store.explain(error, draft.pending.size_bytes) from error
            raise

    def _read(self, matrix: Matrix, view: memoryview) -> None:
        """Read a matrix's file, and check its CRC-32 meanwhile."""
        file = self._store.checks.open_file(matrix)
        with os.fdopen(file, "rb", buffering=0) as opened:
            crc32 = 0
            for begin in range(0, len(view), PIECE_BYTES):
                piece = view[begin : begin + PIECE_BYTES]
                if opened.readinto(piece) != len(piece):
                    raise self._store.checks.mark_damaged(matrix, "its file has become shorter")
                crc32 = update_crc32(piece, crc32)
        self._store.checks.judge(matrix, crc32)
