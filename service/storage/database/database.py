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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import OperationalError as PostgresAway
from sqlalchemy.exc import TimeoutError as PoolTimeout

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.schema import REVISIONS, SchemaRefused, prepare_tables
from wavetrim.service.storage.database.tables import jobs
from wavetrim.service.storage.disk.files import flush
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500
"""Ids that one statement names; chosen, below what SQLite takes."""

BUSY_TIMEOUT_SECONDS: Final = 10
"""How long a writer waits for another one, or for the server, before the caller gets a 503."""

_CHECKED_BYTES: Final = 64 * 2**20
"""A file of up to this size is read whole when it is opened: 0.05 s from memory."""

_RETRY_SECONDS: Final = 0.01
_SYNC: Final = "synchronous"
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


def find_sqlite_path(url: URL) -> Path:
    """The file of a SQLite database.

    Raises:
        SettingRefused: It is in memory, or named by a URI of SQLite's own.
    """
    name = url.database or ":memory:"
    if name == ":memory:" or name.startswith("file:") or "uri" in url.query:
        raise SettingRefused("database_url", str(url), "a SQLite file: sqlite:///FILE")
    return Path(name).absolute()


def open_sqlite(url: URL) -> Engine:
    """Connects to a database file, which must exist."""
    existing = f"{find_sqlite_path(url).as_uri()}?mode=rw"
    database = create_engine(
        url.set(drivername="sqlite+pysqlite"), connect_args={"timeout": BUSY_TIMEOUT_SECONDS}
    )

    @event.listens_for(database, "do_connect")
    def connect(_dialect: object, _record: object, _names: object, options: Any) -> Any:
        # A new file in the place of one that was moved away would cost that one its log.
        return sqlite3.connect(existing, uri=True, **options)

    @event.listens_for(database, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # The driver must not begin transactions on its own: `begin` below does.
        connection.isolation_level = None
        _enter_wal_mode(connection)
        # FULL syncs each commit: a job that was accepted is still there after a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(database, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("only_reads", False):
            connection.exec_driver_sql("BEGIN")
            return
        wanted = "NORMAL" if options.get("unsynced", False) else "FULL"
        if connection.info.get(_SYNC, "FULL") != wanted:
            connection.exec_driver_sql(f"PRAGMA synchronous = {wanted}")
            connection.info[_SYNC] = wanted
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return database


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """Switch to WAL; waits for other connections, as SQLite's own timeout does not apply here."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def check_pages(connection: Connection) -> None:
    """Read the file once: a damaged one is refused before anything is built on it.

    Ended jobs may fill gigabytes, so the jobs of a large database are left out: a start must not
    wait for them. Damage among them is noticed when they are read.
    """
    pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
    page_bytes = int(connection.exec_driver_sql("PRAGMA page_size").scalar() or 0)
    if pages * page_bytes <= _CHECKED_BYTES:
        checks = ["PRAGMA quick_check(1)"]
    else:
        names = connection.exec_driver_sql("SELECT name FROM sqlite_schema WHERE type='table'")
        small = sorted(set(names.scalars()) - {jobs.name})
        checks = [f"PRAGMA quick_check('{name}')" for name in small]
    for check in checks:
        found = connection.exec_driver_sql(check).scalar()
        if found != "ok":
            raise sqlite3.DatabaseError(f"it is damaged: {found}")


def copy_sqlite(source: Path, target: Path) -> None:
    """Copies what is committed, by SQLite's own backup; the copy is whole or not there.

    A copy that is there is replaced. Raises sqlite3.Error if a file cannot be read or written.
    """
    new = target.with_name(f"{target.name}.part")
    new.unlink(missing_ok=True)
    new.touch(0o600, exist_ok=False)  # readable by its user alone, whatever the umask
    only_read = f"{source.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(only_read, uri=True)) as original,
        closing(sqlite3.connect(new)) as copy,
    ):
        original.backup(copy)
        # A single file: a log beside it could be lost.
        copy.execute("PRAGMA journal_mode = DELETE")
    flush(new)
    new.replace(target)
    flush(target.parent)
