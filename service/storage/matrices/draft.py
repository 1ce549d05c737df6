"""A matrix that is not published yet: it is made in the arena and written to disk meanwhile."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.storage.arena.extent import Hold
from wavetrim.service.storage.disk.file_write import FileWrite
from wavetrim.service.storage.matrices.matrix import Matrix, PendingMatrix
from wavetrim.service.threads import run_to_end

WRITE_BYTES: Final = 4 * 2**20
"""Bytes that are handed to the disk's writer at a time; chosen."""


class Draft:
    """A matrix in the arena that is not published yet.

    A received matrix is written from its beginning to its end (`write`). A computed one is written
    in pieces as its rows become final (`write_final`), and then the rest (`write_rest`).

    Args:
        pending: Its description, with its id.
        header: The first bytes of its file.
        hold: Its memory, which belongs to the draft from now on.
        begin_file: Begins its file on disk; None if it stays in memory.

    Attributes:
        pending: As given.
        hold: As given.
        view: Memory of its whole .npy file, with the header filled in.
        file: Its file that is being written, if it has one.
    """

    def __init__(
        self,
        pending: PendingMatrix,
        header: bytes,
        hold: Hold,
        begin_file: Callable[[PendingMatrix], FileWrite] | None,
    ) -> None:
        self.pending = pending
        self.hold = hold
        self.view = hold.extent.view
        self.view[: len(header)] = header
        self._begin_file = begin_file
        self._written: set[int] = set()
        self.file = None if begin_file is None else begin_file(pending)

    def operand(self) -> Operand:
        """Where the engine finds the elements."""
        return locate(self.pending, self.hold)

    async def write(self, begin: int, end: int) -> None:
        """Have bytes of the view written to disk; they must not change any more."""
        if self.file is None:
            return
        for first in range(begin, end, WRITE_BYTES):
            piece = self.view[first : min(end, first + WRITE_BYTES)]
            if self.file.has_room:
                self.file.write(first, piece)
            else:
                await run_to_end(self.file.write, first, piece)

    def write_final(self, final: Sequence[range]) -> None:
        """Have pieces written whose rows are final.

        This never waits: pieces for which the writer has no room are left to a later call.

        Args:
            final: All final rows.
        """
        for rows in final:
            for piece in find_pieces(self.pending, rows):
                if self.file is None or not self.file.has_room:
                    return
                if piece not in self._written:
                    self._written.add(piece)
                    begin = piece * WRITE_BYTES
                    self.file.write(begin, self.view[begin : begin + WRITE_BYTES])

    async def write_rest(self) -> None:
        """Have all other pieces written, when the whole matrix is final."""
        for piece in range(-(-len(self.view) // WRITE_BYTES)):
            if piece not in self._written:
                begin = piece * WRITE_BYTES
                await self.write(begin, min(begin + WRITE_BYTES, len(self.view)))

    def begin_anew(self) -> None:
        """All rows will be computed again: a file that has some of them is replaced by a new one.

        The writer does its tasks in order, so the old file is gone when the new one is made.
        """
        if self.file is not None and self._begin_file is not None and self._written:
            self.file.abort()
            self._written.clear()
            self.file = self._begin_file(self.pending)

    def discard(self) -> Future[None]:
        """Give the matrix up; the future is done when its memory and its file are gone."""
        gone: Future[None] = Future()

        def release(removed: Future[None] | None) -> None:
            self.hold.release()
            failure = removed.exception() if removed is not None else None
            if failure is not None:
                gone.set_exception(failure)
            else:
                gone.set_result(None)

        if self.file is None:
            release(None)
        else:
            self.file.abort().add_done_callback(release)
        return gone


def find_pieces(pending: PendingMatrix, rows: range) -> range:
    """The pieces of a file, `WRITE_BYTES` each, that hold bytes of these rows and no others.

    The header counts to the first row, the end of the file to the last one.

    Args:
        pending: A matrix whose rows are contiguous.
        rows: Some of its rows, at least one.
    """
    row_bytes = (pending.size_bytes - pending.offset_bytes) // pending.rows
    begin = pending.offset_bytes + rows.start * row_bytes if rows.start else 0
    end = pending.offset_bytes + rows.stop * row_bytes
    last = -(-end // WRITE_BYTES) if rows.stop == pending.rows else end // WRITE_BYTES
    return range(-(-begin // WRITE_BYTES), last)


def locate(matrix: Matrix | PendingMatrix, hold: Hold) -> Operand:
    """Where the engine finds the elements of a matrix that lies in the arena."""
    extent = hold.extent
    return Operand(
        extent.place,
        extent.offset_bytes + matrix.offset_bytes,
        matrix.rows,
        matrix.columns,
        matrix.dtype,
        matrix.fortran_order,
    )
