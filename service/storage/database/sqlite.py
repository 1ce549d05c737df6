"""SQLite: a file in WAL mode, read once when it is opened, and copied while others write to it."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.tables import jobs
from wavetrim.service.storage.disk.files import flush

BUSY_TIMEOUT_SECONDS: Final = 10
"""How long a writer waits for another one, or for the server, before the caller gets a 503."""

_CHECKED_BYTES: Final = 64 * 2**20
"""A file of up to this size is read whole when it is opened: 0.05 s from memory."""

_RETRY_SECONDS: Final = 0.01
_SYNC: Final = "synchronous"


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

    Args:
        source: The database's own file.
        target: The copy; one that is there is replaced.

    Raises:
        sqlite3.Error: It cannot be read or written.
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
