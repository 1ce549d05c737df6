"""The tables as this version needs them: made, or upgraded.

`schema_version` says which revision a database has. From one to the next, tables, indexes and
columns that may be NULL are added; what else a revision changes is a step of `_upgrade`.
"""

import logging
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, Engine, Table, delete, func, insert, inspect, select, text
from sqlalchemy.schema import CreateColumn

from wavetrim.service.storage.database.tables import (
    UNFINISHED,
    VERSION_TABLE,
    jobs,
    matrices,
    metadata,
    schema_version,
)

logger = logging.getLogger(__name__)

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Revisions that a database may have, oldest first; the last one is this version's. Databases from
before the first have no `schema_version`."""

_SCHEMA_LOCK: Final = 0x7761_7665
"""Key of the PostgreSQL advisory lock under which the tables are made."""


class SchemaRefused(Exception):
    """This version cannot use the tables; the message says why."""


def prepare_tables(
    database: Engine, keep_copy: Callable[[], None], *, upgrades: bool = True
) -> None:
    """Makes the tables, or upgrades them; all of it happens, or nothing.

    Args:
        database: The database.
        upgrades: Whether older tables may be upgraded; otherwise they are refused.
        keep_copy: Copies the database as it was; called just before an upgrade is committed.

    Raises:
        SchemaRefused: Another version has made the tables, or they are not wavetrim's.
    """
    with database.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Two services that start at the same moment: one makes the tables, the other waits.
            connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        there = set(inspect(connection).get_table_names())
        revision = _find_revision(connection) if VERSION_TABLE in there else None
        if revision == REVISIONS[-1]:
            _fit_tables(connection, adds=False)
        elif not metadata.tables.keys() & there:
            metadata.create_all(connection)
            _note_revision(connection)
        elif not upgrades:
            raise SchemaRefused(f"its tables are of version {revision}; a service upgrades them")
        else:
            _upgrade(connection, revision or "")
            keep_copy()
            logger.info("the tables were of version %s; they are of %s", revision, REVISIONS[-1])


def _upgrade(connection: Connection, revision: str) -> None:
    """Change older tables into those of the newest revision."""
    _fit_tables(connection, adds=True)
    if revision < "0003" and connection.dialect.name == "postgresql":
        # More than 2³¹ jobs may be numbered, as on SQLite; this rewrites the table.
        connection.execute(text("ALTER TABLE jobs ALTER COLUMN sequence TYPE BIGINT"))
        connection.execute(text("ALTER SEQUENCE jobs_sequence_seq AS BIGINT"))
    if revision < "0004":
        _fill_shapes(connection)
    _note_revision(connection)


def _fill_shapes(connection: Connection) -> None:
    """Jobs say the shape of their result, as others may wait for it."""
    b = matrices.alias()
    unfinished = (
        select(jobs.c.id, matrices.c.rows, b.c.columns, matrices.c.dtype)
        .where(jobs.c.state.in_(UNFINISHED))
        .join(matrices, matrices.c.id == jobs.c.a)
        .join(b, b.c.id == jobs.c.b)
    )
    for job, *shape in connection.execute(unfinished).all():
        connection.execute(jobs.update().where(jobs.c.id == job).values(shape=[*shape, None]))


def _fit_tables(connection: Connection, *, adds: bool) -> None:
    """Make sure that all tables and columns are there; those that are missing may be added.

    Raises:
        SchemaRefused: One is missing, such as in tables of another program.
    """
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        if inspector.has_table(table.name):
            there = {column["name"] for column in inspector.get_columns(table.name)}
            _fit_columns(connection, table, there, adds=adds)
        elif adds:
            table.create(connection)
        else:
            raise SchemaRefused(f"it has no table {table.name}, which this wavetrim has made")


def _fit_columns(connection: Connection, table: Table, there: set[str], *, adds: bool) -> None:
    for column in table.columns:
        if column.name in there:
            continue
        if not (adds and column.nullable):
            raise SchemaRefused(
                f"its table {table.name} is not wavetrim's: column {column.name} is missing"
            )
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {described}"))
    for index in table.indexes if adds else ():
        index.create(connection, checkfirst=True)


def _find_revision(connection: Connection) -> str:
    """The revision of the tables."""
    found = list(connection.scalars(select(schema_version.c.version_num)))
    if len(found) == 1 and found[0] in REVISIONS:
        return str(found[0])
    shown = " and ".join(found) or "none"
    raise SchemaRefused(
        f"its tables are of version {shown}, and this wavetrim knows those up to {REVISIONS[-1]}; "
        "start the wavetrim that it belongs to, or restore a copy from before its upgrade"
    )


def _note_revision(connection: Connection) -> None:
    connection.execute(delete(schema_version))
    connection.execute(insert(schema_version).values(version_num=REVISIONS[-1]))
