"""Drafts: matrices that are received or computed, until their rows say that they are stored.

A matrix's whole .npy file lies in one extent of the arena, and is written to disk meanwhile. It
stays there when it is stored, as its own cache. If the arena has no memory, it lies in the mapped
file that it becomes, which is named `<id>.npy` when it is complete.

After a failed commit it is not known whether the row exists. To find out, it is added once more:
that waits for a transaction that may still commit it, and fails if the row exists.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Connection, insert
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wavetrim.service.errors import BodyTooLarge
from wavetrim.service.storage.database.shared_commits import Change, CommitLost, Together, make_all
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.files import remove
from wavetrim.service.storage.disk.unsynced_files import add_contents
from wavetrim.service.storage.matrices.draft import Draft
from wavetrim.service.storage.matrices.matrix import Matrix, count_data_bytes
from wavetrim.service.storage.matrices.npy import format_header
from wavetrim.service.storage.memory.arena import ArenaFull
from wavetrim.service.storage.memory.extent import PAGE_BYTES, Hold
from wavetrim.service.storage.memory.intake import Fill, receive_body
from wavetrim.service.storage.memory.mapped_file import map_file
from wavetrim.service.threads import run_to_end

if TYPE_CHECKING:
    from wavetrim.service.storage.matrices.matrices import MatrixStore

R = TypeVar("R")

logger = logging.getLogger(__name__)

_ADDED: Final = insert(matrices)
_COLUMNS: Final = tuple({*matrices.c.keys()} - {"place"})


class CommitUnclear(SQLAlchemyError):
    """The answer to a commit was lost, and the database does not say whether it took place."""


class Drafts:
    """Begins matrices, and adds them to their store.

    Coroutines are to be used from one event loop, everything else from any thread.

    Attributes:
        store: The store.
    """

    def __init__(self, store: "MatrixStore") -> None:
        self.store = store
        self._unclear: dict[str, Matrix] = {}

    def describe(
        self,
        rows: int,
        columns: int,
        dtype: str,
        *,
        fortran_order: bool = False,
        owner: str = "",
        stack: int | None = None,
        on_disk: bool = True,
    ) -> Matrix:
        """A new matrix, or stack, that takes no memory and no file yet.

        Raises:
            BodyTooLarge: It would be larger than a matrix may be.
        """
        name = uuid.uuid4().hex[:30]
        matrix = Matrix(
            name, rows, columns, dtype, fortran_order, 0, 0,
            path=self.store.folder / f"{name}.npy", owner=owner, stack=stack, on_disk=on_disk,
        )  # fmt: skip
        offset_bytes = len(_format_header(matrix))
        size_bytes = offset_bytes + count_data_bytes(rows, columns, dtype, stack)
        most_bytes = self.store.max_matrix_bytes
        if size_bytes > most_bytes:
            limit = f"at most {most_bytes} bytes (max_matrix_bytes)"
            raise BodyTooLarge("matrix size", size_bytes, limit)
        return replace(matrix, offset_bytes=offset_bytes, size_bytes=size_bytes)

    def check_size(self, rows: int, columns: int, dtype: str, stack: int | None) -> None:
        """Refuse a matrix that would be too large, as `describe` does."""
        most_bytes = self.store.max_matrix_bytes - PAGE_BYTES  # a header takes a page at most
        if count_data_bytes(rows, columns, dtype, stack) > most_bytes:
            self.describe(rows, columns, dtype, stack=stack)

    async def begin(self, matrix: Matrix) -> Draft:
        """Begin a matrix that is computed.

        One that should be in memory only is stored on disk, as others are, if the arena has no
        memory for it: nobody is there any more who could be refused.

        Raises:
            StorageFull: There is no space on disk.
        """
        try:
            return await self._begin(matrix)
        except ArenaFull:
            return await self._begin(replace(matrix, on_disk=True))

    async def _begin(self, matrix: Matrix) -> Draft:
        draft = Draft(self, matrix)
        try:
            await run_to_end(self.store.stored.begin, matrix)
            make_file = self._choose_file(matrix)
            draft.begin(await self.store.arena.obtain(matrix.size_bytes, "storage", make_file))
        except BaseException:
            await draft.discard()
            raise
        draft.view[: matrix.offset_bytes] = _format_header(matrix)
        return draft

    async def receive(self, matrix: Matrix, fill: Fill) -> Draft:
        """Receive a matrix into memory that grows with it, and write it to disk meanwhile.

        Args:
            matrix: From `describe`.
            fill: Receives its next bytes, without a header.

        Raises:
            StorageFull: There is no space for it.
            StorageFailed: Its file cannot be written.
            Exception: What `fill` has raised. Nothing of the matrix is left then.
        """
        draft = Draft(self, matrix)
        try:
            await run_to_end(self.store.stored.begin, matrix)
            await receive_body(
                self.store.arena, matrix.size_bytes, fill,
                holder="storage", begin=draft.begin,
                head=_format_header(matrix), make_file=self._choose_file(matrix),
            )  # fmt: skip
        except BaseException:
            await draft.discard()
            raise
        return draft

    async def commit(
        self, matrix: Matrix, content: memoryview | None, settle: Change[R] | None
    ) -> R | None:
        """Add the row of a matrix whose file is there; as `Draft.publish`.

        The commit of a matrix that is stored in memory does not wait for the disk.
        """
        change = Together(_add_rows, (_describe_row(matrix), content, settle))
        added = self.store.commits.add(change, durable=matrix.on_disk)
        try:
            settled = await asyncio.wrap_future(added)
        except BaseException as error:
            await run_to_end(self._end_failed, matrix, error)
            return None
        self.store.stored.note_published(matrix.id)
        if content is not None:
            self.store.unsynced.note_added(matrix.size_bytes)
        return settled

    def resolve_unclear(self) -> None:
        """Ends the drafts whose commit was not answered: the row decides.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer; they stay unclear.
        """
        for matrix in list(self._unclear.values()):
            if self._has_row(matrix):
                self.store.stored.note_published(matrix.id)
            else:
                logger.warning("matrix %s was not committed: its file is removed", matrix.id)
                self._remove(matrix)
            del self._unclear[matrix.id]

    def _choose_file(self, matrix: Matrix) -> Callable[[int], Awaitable[Hold]] | None:
        """What makes files where the arena has no memory; None for a matrix in memory only."""
        if not matrix.on_disk:
            return None
        making = partial(self.store.stored.making, matrix)
        return partial(map_file, holder="storage", folder=self.store.folder, making=making)

    def _end_failed(self, matrix: Matrix, error: BaseException) -> None:
        """End a commit that has failed; returns if the row is there nevertheless."""
        try:
            there = isinstance(error, CommitLost) and self._has_row(matrix)
        except SQLAlchemyError as unanswered:
            self._unclear[matrix.id] = matrix  # its bytes stay counted until the row has decided
            raise CommitUnclear(f"the commit of matrix {matrix.id} is unclear") from unanswered
        if not there:
            self._remove(matrix)
            raise error.cause if isinstance(error, CommitLost) else error
        self.store.stored.note_published(matrix.id)

    def _has_row(self, matrix: Matrix) -> bool:
        """Whether a matrix's row exists, once all transactions that are open now have ended."""
        try:
            with self.store.database.connect() as connection, connection.begin() as transaction:
                connection.execute(_ADDED, _describe_row(matrix))
                transaction.rollback()
        except IntegrityError:
            return True
        return False

    def _remove(self, matrix: Matrix) -> None:
        remove(matrix.path)
        self.store.stored.note_discarded(matrix.id)


def _add_rows(
    connection: Connection,
    added: Sequence[tuple[dict[str, Any], memoryview | None, Change[R] | None]],
) -> Sequence[R | None]:
    """Add the rows of matrices that are published together; returns what each has settled."""
    connection.execute(_ADDED, [row for row, _, _ in added])
    contents = [(row["id"], content) for row, content, _ in added if content is not None]
    add_contents(connection, contents)
    settled = iter(make_all(connection, [settle for _, _, settle in added if settle is not None]))
    return [None if settle is None else next(settled) for _, _, settle in added]


def _format_header(matrix: Matrix) -> bytes:
    return format_header(
        matrix.rows, matrix.columns, matrix.dtype, fortran_order=matrix.fortran_order,
        stack=matrix.stack, stored=True,
    )  # fmt: skip


def _describe_row(matrix: Matrix) -> dict[str, Any]:
    """The columns of a matrix's row."""
    row = {name: getattr(matrix, name) for name in _COLUMNS}
    return row | {"owner": matrix.owner or None, "place": "disk" if matrix.on_disk else "memory"}
