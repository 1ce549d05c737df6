"""The tables as this version needs them: made, or brought up to date where they stand."""

from typing import Final

from sqlalchemy import Connection, Engine, Table, func, inspect, select, text

from wavetrim.service.storage.tables import metadata

_SCHEMA_LOCK: Final = 0x7761_7665
"""Key of the PostgreSQL advisory lock under which the tables are made."""


def prepare_tables(database: Engine) -> None:
    """Creates what is missing: tables, columns of tables that are there, and indexes.

    Nothing is ever removed or rewritten, so an earlier version can still read the database.
    """
    with database.begin() as connection:
        if connection.dialect.name == "postgresql":
            # CREATE TABLE IF NOT EXISTS fails when two services run it at the same moment.
            connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        metadata.create_all(connection)
        for table in metadata.tables.values():
            _add_columns(connection, table)
            for index in table.indexes:
                index.create(connection, checkfirst=True)


def _add_columns(connection: Connection, table: Table) -> None:
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in there:
            kind = column.type.compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))
