"""The tables as this version needs them: made, or upgraded by migrations.

`schema_version` says which revision a database has; `migrations/versions/` has a file for each step
from one to the next. A new database is made at the newest revision. Alembic, which takes a quarter
of a second to import, is used only if there is something to upgrade.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, func, insert, inspect, select

from wavetrim.service.storage.database.tables import VERSION_TABLE, metadata, schema_version

logger = logging.getLogger(__name__)

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Revisions that a database may have, oldest first; the last one is this version's."""

MIGRATIONS: Final = Path(__file__).parent / "migrations"
"""Alembic's folder."""

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
        revision = _find_revision(connection)
        there = inspect(connection).get_table_names()
        if revision is None and metadata.tables.keys().isdisjoint(there):
            metadata.create_all(connection)
            connection.execute(insert(schema_version).values(version_num=REVISIONS[-1]))
            return
        if revision != REVISIONS[-1]:
            if not upgrades:
                raise SchemaRefused(
                    f"its tables are of version {revision}; a service upgrades them"
                )
            _upgrade(connection)
        if difference := _find_difference(connection):
            raise SchemaRefused(difference)
        if revision != REVISIONS[-1]:
            keep_copy()
            logger.info("the tables were of version %s; they are of %s", revision, REVISIONS[-1])


def _find_difference(connection: Connection) -> str | None:
    """The first table or column that is missing, such as in tables of another program."""
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        if not inspector.has_table(table.name):
            return f"it has no table {table.name}, which this wavetrim has made"
        there = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                return f"its table {table.name} is not wavetrim's: column {column.name} is missing"
    return None


def _find_revision(connection: Connection) -> str | None:
    """The revision of the tables; None if there are none, or they are older than all revisions."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = list(connection.scalars(select(schema_version.c.version_num)))
    if len(found) == 1 and found[0] in REVISIONS:
        return str(found[0])
    shown = " and ".join(found) or "none"
    raise SchemaRefused(
        f"its tables are of version {shown}, and this wavetrim knows those up to {REVISIONS[-1]}; "
        "start the wavetrim that it belongs to, or restore a copy from before its upgrade"
    )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, REVISIONS[-1])
