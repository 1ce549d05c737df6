"""The rows of matrices: added when their files are there, and decided where an answer was lost.

After a failed commit it is not known whether the row exists. To find out, it is added once more:
that waits for a transaction that may still commit it, and fails if the row exists.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, Row, insert
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wavetrim.service.storage.database.shared_commits import (
    Change,
    CommitLost,
    SharedCommits,
    Together,
    make_all,
)
from wavetrim.service.storage.database.tables import matrices, read_owner
from wavetrim.service.storage.disk.files import remove
from wavetrim.service.storage.disk.unsynced_files import UnsyncedFiles, add_contents
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.stored_bytes import StoredBytes
from wavetrim.service.threads import run_to_end

R = TypeVar("R")

logger = logging.getLogger(__name__)

_ADDED: Final = insert(matrices)
_COLUMNS: Final = tuple({*matrices.c.keys()} - {"place"})


class CommitUnclear(SQLAlchemyError):
    """The answer to a commit was lost, and the database does not say whether it took place."""


class MatrixRows:
    """Adds the rows of matrices.

    Args:
        database: Has the rows.
        commits: Adds them.
        stored: Counts their bytes.
        unsynced: The files whose bytes are committed with their rows.
    """

    def __init__(
        self,
        database: Engine,
        commits: SharedCommits,
        stored: StoredBytes,
        unsynced: UnsyncedFiles,
    ) -> None:
        self._database, self._commits = database, commits
        self._stored, self._unsynced = stored, unsynced
        self._unclear: dict[str, Matrix] = {}

    async def add(
        self, matrix: Matrix, content: memoryview | None, settle: Change[R] | None
    ) -> R | None:
        """Add the row of a matrix whose file is there; as `Draft.publish`.

        The commit of a matrix that is stored in memory does not wait for the disk.
        """
        change = Together(_add_rows, (_describe_row(matrix), content, settle))
        added = self._commits.add(change, durable=matrix.on_disk)
        try:
            settled = await asyncio.wrap_future(added)
        except BaseException as error:
            await run_to_end(self._end_failed, matrix, error)
            return None
        self._stored.note_published(matrix.id)
        if content is not None:
            self._unsynced.note_added(matrix.size_bytes)
        return settled

    def resolve_unclear(self) -> None:
        """Ends the matrices whose commit was not answered: the row decides.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer; they stay unclear.
        """
        for matrix in list(self._unclear.values()):
            if not self._settle(matrix):
                logger.warning("matrix %s was not committed: its file is removed", matrix.id)
            del self._unclear[matrix.id]

    def _end_failed(self, matrix: Matrix, error: BaseException) -> None:
        """End a commit that has failed; returns if the row is there nevertheless."""
        if not isinstance(error, CommitLost):
            self._give_up(matrix)
            raise error
        try:
            there = self._settle(matrix)
        except SQLAlchemyError as unanswered:
            self._unclear[matrix.id] = matrix  # its bytes stay counted until the row has decided
            raise CommitUnclear(f"the commit of matrix {matrix.id} is unclear") from unanswered
        if not there:
            raise error.cause

    def _settle(self, matrix: Matrix) -> bool:
        """Publish a matrix if its row exists, or give it up, once all transactions have ended."""
        try:
            with self._database.connect() as connection, connection.begin() as transaction:
                connection.execute(_ADDED, _describe_row(matrix))
                transaction.rollback()
        except IntegrityError:
            self._stored.note_published(matrix.id)
            return True
        self._give_up(matrix)
        return False

    def _give_up(self, matrix: Matrix) -> None:
        remove(matrix.path)
        self._stored.note_discarded(matrix.id)


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


def _describe_row(matrix: Matrix) -> dict[str, Any]:
    """The columns of a matrix's row."""
    row = {name: getattr(matrix, name) for name in _COLUMNS}
    return row | {"owner": matrix.owner or None, "place": "disk" if matrix.on_disk else "memory"}


def read_row(row: Row[Any], folder: Path) -> Matrix:
    """The matrix of a row, whose file is in a folder."""
    described = read_owner(dict(row._mapping))
    on_disk = described.pop("place") != "memory"
    return Matrix(**described, on_disk=on_disk, path=folder / f"{row.id}.npy")
