"""The database behind the stores: SQLite in WAL mode by default, PostgreSQL by URL.

Two kinds of transaction, so that "look, then write" never loses an update:

- `database.begin()` writes. On SQLite it takes the write lock at once (BEGIN IMMEDIATE): whatever
  is read inside cannot be changed by another writer before the commit. On PostgreSQL the same
  promise needs row locks (`with_for_update()`) on what was read; SQLite ignores them.
- `reading(database)` only reads, and waits for nobody.

The commit of a transaction with the option `unsynced` does not wait for the disk: a power cut may
undo it, though not what was committed before. The end of the process does not undo it.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import OperationalError as PostgresAway
from sqlalchemy.exc import TimeoutError as PoolTimeout

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.schema import REVISIONS, SchemaRefused, prepare_tables
from wavetrim.service.storage.database.sqlite import (
    BUSY_TIMEOUT_SECONDS,
    check_pages,
    copy_sqlite,
    find_sqlite_path,
    open_sqlite,
)
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500
"""Ids that one statement names; chosen, below what SQLite takes."""

_CONNECT_SECONDS: Final = 5
_UNUSABLE: Final = (DBAPIError, PoolTimeout, sqlite3.DatabaseError, SchemaRefused, OSError)
_READ_ONLY: Final = "25006"  # SQLSTATE read_only_sql_transaction


def open_database(
    url: str, *, upgrades: bool = True, on_connect: Callable[[Any], None] | None = None
) -> Engine:
    """Connects to a database and makes its tables, or upgrades them.

    Before an upgrade SQLite's file is copied beside itself.

    Args:
        url: `sqlite:///path/to/file.db` or `postgresql://user@host/name`.
        upgrades: Whether older tables may be upgraded: by those who have claimed the database.
        on_connect: Is given each connection of the driver before it is used.

    Returns:
        An engine with a connection pool; it may be used from every thread.

    Raises:
        SettingRefused: The URL names another kind of database, or no file.
        DatabaseAway: Its server cannot be reached now.
        DatabaseRefused: It is locked, damaged, of a newer version, or none of wavetrim's.
    """
    parsed = read_url(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    database = open_sqlite(parsed) if is_sqlite else open_postgres(parsed)
    if on_connect is not None:
        event.listen(database, "connect", lambda connection, _: on_connect(connection))
    try:
        if is_sqlite:
            path = find_sqlite_path(parsed)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            with reading(database) as connection:
                check_pages(connection)
        prepare_tables(database, keep_copy=partial(_keep_copy, parsed), upgrades=upgrades)
    except BaseException as error:
        database.dispose()
        if not isinstance(error, _UNUSABLE):
            raise
        refused = DatabaseAway if _is_away(error) else DatabaseRefused
        shown = parsed.render_as_string(hide_password=True)
        raise refused(shown, find_reason(error)) from error
    return database


def find_reason(error: Exception) -> str:
    """What the database said, in one line; SQLAlchemy adds the statement and its values."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def read_url(url: str) -> URL:
    """The parts of a database's URL.

    Raises:
        SettingRefused: It names another kind of database, or none.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # the latter for a port that is no number
        # What stands before the last "@" may hold a password.
        shown = url.rpartition("@")[2]
        raise SettingRefused("database_url", shown, "a SQLAlchemy URL") from error
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise SettingRefused("database_url", backend, "sqlite:///FILE or postgresql://…")
    return parsed


def _keep_copy(url: URL) -> None:
    """Copy SQLite's file before an upgrade; a server's databases are copied by its operator."""
    if url.get_backend_name() == "sqlite":
        path = find_sqlite_path(url)
        day = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{path.stem}-before-{REVISIONS[-1]}-{day}{path.suffix}"
        copy_sqlite(path, path.with_name(name))
        logger.info("the database as it was before the upgrade is kept: %s", name)


def _is_away(error: Exception) -> bool:
    """Whether PostgreSQL's server is away, and may answer later; False if it refuses for good."""
    if not isinstance(error, DBAPIError) or not type(error.orig).__module__.startswith("psycopg"):
        return False
    text = str(error.orig)
    passing = ("starting up", "shutting down", "recovery", "too many", "connection slots")
    return isinstance(error, PostgresAway) and (
        "FATAL:" not in text or any(words in text for words in passing)
    )


def split(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ids in parts that one statement can name."""
    for first in range(0, len(ids), _AT_ONCE):
        yield ids[first : first + _AT_ONCE]


@contextmanager
def reading(database: Engine) -> Iterator[Connection]:
    """A transaction that only reads: on SQLite it takes no write lock."""
    with database.connect().execution_options(only_reads=True) as connection:
        yield connection


def open_postgres(url: URL) -> Engine:
    """Connects to a database of a PostgreSQL server; its tables are left as they are.

    Raises:
        SettingRefused: The library that speaks with it is not installed.
    """
    if find_spec("psycopg") is None:
        limit = "SQLite's, as psycopg is not installed (pip install 'wavetrim[postgres]')"
        raise SettingRefused("database_url", "postgresql", limit)
    database = create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        pool_timeout=BUSY_TIMEOUT_SECONDS,
        connect_args={
            "connect_timeout": _CONNECT_SECONDS,
            # A server that vanishes is noticed as soon as one that is locked.
            "tcp_user_timeout": 1000 * BUSY_TIMEOUT_SECONDS,
            "keepalives_idle": BUSY_TIMEOUT_SECONDS,
        },
    )

    @event.listens_for(database, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.execute(f"SET lock_timeout = '{BUSY_TIMEOUT_SECONDS}s'")
        # A transaction whose connection is lost must not hold its locks for hours.
        idle = f"{3 * BUSY_TIMEOUT_SECONDS}s"
        connection.execute(f"SET idle_in_transaction_session_timeout = '{idle}'")
        connection.commit()

    @event.listens_for(database, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("unsynced", False):
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    @event.listens_for(database, "handle_error", retval=True)
    def call_away(context: ExceptionContext) -> PostgresAway | None:
        # A server that takes no writes, as a standby, may take them later.
        if getattr(context.original_exception, "sqlstate", None) != _READ_ONLY:
            return None
        return PostgresAway(context.statement, None, context.original_exception)

    return database
