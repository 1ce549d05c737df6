"""A matrix's row, added in a transaction whose answer may be lost.

After a failed commit it is not known whether the row exists. To find out, it is added once more:
that waits for a transaction that may still commit it, and fails if the row exists.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Connection, Engine, insert
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wavetrim.service.storage.database.database import hurry_commit
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.disk_room import DiskRoom
from wavetrim.service.storage.disk.new_file import remove
from wavetrim.service.storage.matrices.matrix import Matrix

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]

Settle = Callable[[Connection], None]
"""Changes more rows in the transaction that adds a matrix's row; if it raises, nothing is added."""

_ADDED: Final = insert(matrices)


class CommitUnclear(SQLAlchemyError):
    """The answer to a commit was lost, and the database does not say whether it took place."""


class Publication:
    """Adds the rows of matrices whose files are written. Thread-safe.

    Args:
        database: Has the rows.
        room: Counts what the files take of the disk.
    """

    def __init__(self, database: Engine, room: DiskRoom) -> None:
        self._database = database
        self._room = room
        self._unclear: dict[str, Matrix] = {}

    def add(self, matrix: Matrix, settle: Settle | None) -> None:
        """Adds a matrix's row, as `add_row` does; without the row, its file is removed.

        Raises:
            CommitUnclear: The row may exist or not: `settle_unclear` decides.
            Exception: What `settle` or the database raised.
        """
        try:
            add_row(self._database, describe_row(matrix), settle)
        except CommitUnclear:
            # Its bytes stay counted until the row has decided.
            self._unclear[matrix.id] = matrix
            raise
        except BaseException:
            self._remove(matrix)
            raise
        self._room.keep(matrix.id, matrix.size_bytes)

    def settle_unclear(self) -> None:
        """Ends the publications whose commit was not answered: the row decides.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer; they stay unclear.
        """
        for matrix in list(self._unclear.values()):
            if has_row(self._database, describe_row(matrix)):
                self._room.keep(matrix.id, matrix.size_bytes)
            else:
                logger.warning("matrix %s was not committed: its file is removed", matrix.id)
                self._remove(matrix)
            del self._unclear[matrix.id]

    def _remove(self, matrix: Matrix) -> None:
        remove(matrix.path)
        self._room.give(matrix.id)


def describe_row(matrix: Matrix) -> dict[str, Any]:
    """The columns of a matrix's row."""
    row = asdict(matrix) | {"owner": matrix.owner or None}
    del row["path"]
    return row


def add_row(
    database: Engine,
    row: Row,
    settle: Settle | None,
    *,
    durable: bool = True,
) -> None:
    """Adds a matrix's row.

    Args:
        database: The database.
        row: The row's columns.
        settle: Changes more rows in the same transaction.
        durable: Whether the commit waits for the disk.

    Raises:
        CommitUnclear: The row may exist or not.
        Exception: What `settle` or the database raised; the row does not exist.
    """
    with database.connect().execution_options(unsynced=not durable) as connection:
        transaction = connection.begin()
        try:
            if not durable:
                hurry_commit(connection)
            connection.execute(_ADDED, row)
            if settle is not None:
                settle(connection)
        except BaseException:
            transaction.rollback()
            raise
        try:
            transaction.commit()
        except SQLAlchemyError as error:
            failure = error
            connection.invalidate()
        else:
            return
    try:
        there = has_row(database, row)
    except SQLAlchemyError as error:
        raise CommitUnclear(f"the commit of matrix {row['id']} was not answered") from error
    if not there:
        raise failure


def has_row(database: Engine, row: Row) -> bool:
    """Whether a matrix's row exists, once all transactions that are open now have ended.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: The database does not say.
    """
    try:
        with database.connect() as connection, connection.begin() as transaction:
            connection.execute(_ADDED, row)
            transaction.rollback()
    except IntegrityError:
        return True
    return False
