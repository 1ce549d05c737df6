"""The database behind the stores: SQLite in WAL mode by default, PostgreSQL by URL.

Two kinds of transaction, so that "look, then write" never loses an update:

- `database.begin()` writes. On SQLite it takes the write lock at once (BEGIN IMMEDIATE): whatever
  is read inside cannot be changed by another writer before the commit. On PostgreSQL the same
  promise needs row locks (`with_for_update()`) on what was read; SQLite ignores them.
- `reading(database)` only reads, and waits for nobody.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from sqlite3 import OperationalError
from typing import Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.tables import metadata

BUSY_TIMEOUT_SECONDS: Final = 30
"""How long a SQLite writer waits for another one."""

_RETRY_SECONDS: Final = 0.01

_SCHEMA_LOCK: Final = 0x7761_7665
"""Key of the PostgreSQL advisory lock under which the tables are created."""


def open_database(url: str) -> Engine:
    """Connects to a database and creates the tables that are missing.

    Args:
        url: `sqlite:///path/to/file.db` or `postgresql://user@host/name`.

    Returns:
        An engine with a connection pool; it may be used from every thread.

    Raises:
        SettingRefused: The URL names another kind of database, or no file.
        sqlalchemy.exc.OperationalError: The server cannot be reached.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        # What stands before the last "@" may hold a password.
        shown = url.rpartition("@")[2]
        raise SettingRefused("database_url", shown, "a SQLAlchemy URL") from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        database = _open_sqlite(parsed)
    elif backend == "postgresql":
        database = create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    else:
        raise SettingRefused("database_url", backend, "sqlite:///FILE or postgresql://…")
    _create_tables(database)
    return database


@contextmanager
def reading(database: Engine) -> Iterator[Connection]:
    """A transaction that only reads: on SQLite it takes no write lock."""
    with database.connect().execution_options(only_reads=True) as connection:
        yield connection


def _open_sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise SettingRefused("database_url", str(url), "a SQLite file: sqlite:///FILE")
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    database = create_engine(
        url.set(drivername="sqlite+pysqlite"), connect_args={"timeout": BUSY_TIMEOUT_SECONDS}
    )

    @event.listens_for(database, "connect")
    def configure(connection: SqliteConnection, _record: object) -> None:
        # The driver must not begin transactions on its own: `begin` below does.
        connection.isolation_level = None
        _enter_wal_mode(connection)
        # FULL syncs each commit: a job that was accepted is still there after a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(database, "begin")
    def begin(connection: Connection) -> None:
        only_reads = connection.get_execution_options().get("only_reads", False)
        connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")

    return database


def _enter_wal_mode(connection: SqliteConnection) -> None:
    """Switch to WAL; waits for other connections, for which SQLite's own timeout does not care."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _create_tables(database: Engine) -> None:
    with database.begin() as connection:
        if connection.dialect.name == "postgresql":
            # CREATE TABLE IF NOT EXISTS fails when two services run it at the same moment.
            connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        metadata.create_all(connection)
