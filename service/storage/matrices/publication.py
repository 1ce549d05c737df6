"""A matrix's row: added in one transaction, whose answer may be lost on the way.

After a failed commit nobody knows whether the row is there. So the row is asked for: by adding it
once more, which waits for a transaction that may still commit it, and fails if it has.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Engine, insert
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wavetrim.service.storage.database.database import hurry_commit
from wavetrim.service.storage.database.tables import matrices

Row = Mapping[str, Any]

_ADDED: Final = insert(matrices)


class CommitUnclear(SQLAlchemyError):
    """The answer to a commit was lost, and the database does not say whether it took place."""


def add_row(
    database: Engine,
    row: Row,
    settle: Callable[[Connection], None] | None,
    *,
    durable: bool = True,
) -> None:
    """Adds a matrix's row.

    Args:
        database: The database.
        row: The row's columns.
        settle: Changes more rows in the same transaction.
        durable: Whether a power cut must not undo it.

    Raises:
        CommitUnclear: The row may be there or not.
        Exception: What `settle` or the database raised; the row is not there.
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
    """Whether a matrix's row is there, now and after every transaction that was under way.

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
