"""A database belongs to one service at a time.

A service takes all jobs and matrices of its database for its own: a second one would fail the
first's jobs and call its matrices damaged. The lock of the data folder does not keep it out, since
two folders may name one database. So the database has a lock, too, which ends with the process:

- SQLite: a lock on a file beside the database's own.
- PostgreSQL: an advisory lock of the schema, on a connection of its own. The server frees it when
  that connection ends, 25 seconds after the last word of a machine that is gone.

With its connection a service loses PostgreSQL's lock. It takes it again before it makes any other
connection. If another service was quicker, this one no longer uses the database.
"""

import fcntl
import logging
import os
import threading
import uuid
from typing import Final, Protocol

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import OperationalError as PostgresAway

from wavetrim.service.storage.database.database import (
    explain_refusal,
    find_sqlite_path,
    open_postgres,
    read_url,
)
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused, DatabaseTaken

logger = logging.getLogger(__name__)

_KEEPALIVES: Final = (
    # After 10 s of silence the server asks three times, 5 s apart, whether the machine is there.
    "tcp_keepalives_idle = 10",
    "tcp_keepalives_interval = 5",
    "tcp_keepalives_count = 3",
)
_TAKE: Final = """
    SELECT pg_try_advisory_lock((2002876005::bigint << 32) + oid::bigint)
    FROM pg_namespace WHERE nspname = current_schema()
"""
"""The lock's number is "wave" in ASCII, and the schema's number."""

_HOLDER: Final = """
    SELECT activity.pid, host(activity.client_addr), activity.application_name
    FROM pg_namespace
    JOIN pg_locks ON locktype = 'advisory' AND classid = 2002876005 AND objid = pg_namespace.oid
    JOIN pg_database ON pg_database.oid = pg_locks.database AND datname = current_database()
    JOIN pg_stat_activity AS activity ON activity.pid = pg_locks.pid
    WHERE nspname = current_schema() AND granted
"""


class Claim(Protocol):
    """The lock of a database. Thread-safe."""

    def guard(self, database: Engine) -> None:
        """From now on, lets the database's connections work only while the lock is held."""

    def keep(self) -> None:
        """Finds whether the lock is still held, and takes it again if it was lost.

        Raises:
            sqlalchemy.exc.DBAPIError: It is not held.
        """

    def close(self) -> None:
        """Gives the lock back."""


def claim_database(url: str) -> Claim:
    """Keeps other services out of a database until the claim is closed, or the process ends.

    Commands that only read, or write keys, claim nothing.

    Args:
        url: As for `open_database`; the database may be empty.

    Raises:
        SettingRefused: The URL names another kind of database, or no file.
        DatabaseTaken: Another service has it.
        DatabaseAway: Its server cannot be reached now.
        DatabaseRefused: It cannot be used.
    """
    parsed = read_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _FileClaim(parsed)
    try:
        return _ServerClaim(parsed)
    except DBAPIError as error:
        raise explain_refusal(parsed, error) from error


class _FileClaim:
    """The lock beside SQLite's file, which cannot be lost."""

    def __init__(self, url: URL) -> None:
        path = find_sqlite_path(url).resolve()
        lock = path.with_name(f"{path.name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DatabaseRefused(str(url), f"{lock}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            if isinstance(error, BlockingIOError):
                raise DatabaseTaken(str(url), f"it has locked {lock}") from error
            raise DatabaseRefused(str(url), f"{lock}: {error.strerror}") from error

    def guard(self, database: Engine) -> None:
        """Nothing is to do."""

    def keep(self) -> None:
        """Nothing is to do."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class _ServerClaim:
    """PostgreSQL's lock."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = open_postgres(url)
        # Tells an earlier connection of this claim from another service's.
        self._name = f"wavetrim {uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._connection: Connection | None = self._take()
        self._taken: DatabaseTaken | None = None

    def guard(self, database: Engine) -> None:
        """Have new connections look for the lock, as what ends old ones may have ended it, too."""

        @event.listens_for(database, "connect")
        def expect_held(*_: object) -> None:
            self.keep()

        @event.listens_for(database, "begin")
        def expect_not_taken(_: Connection) -> None:
            self._refuse_if_taken()

    def keep(self) -> None:
        """Ask the server something on the lock's connection; without an answer, make another."""
        with self._lock:
            self._refuse_if_taken()
            if self._answers():
                return
            try:
                self._connection = self._take()
            except DatabaseAway as error:
                if isinstance(error, DatabaseTaken):
                    logger.critical("%s; this one stays out: end one of the two", error)
                    self._taken = error
                raise PostgresAway("BEGIN", None, error) from error
            logger.warning("the database's lock was lost with its connection, and is taken again")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._engine.dispose()

    def _answers(self) -> bool:
        """Whether the lock's connection is open; if not, it is forgotten."""
        if self._connection is None:
            return False
        try:
            self._connection.exec_driver_sql("SELECT 1")
        except DBAPIError:
            _drop(self._connection)
            self._connection = None
            return False
        return True

    def _refuse_if_taken(self) -> None:
        if self._taken is not None:
            raise PostgresAway("BEGIN", None, self._taken)

    def _take(self) -> Connection:
        """A new connection that holds the lock."""
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            for setting in (f"application_name = '{self._name}'", *_KEEPALIVES):
                connection.exec_driver_sql(f"SET {setting}")
            self._lock_schema(connection)
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _lock_schema(self, connection: Connection) -> None:
        taken = connection.exec_driver_sql(_TAKE).scalar()
        if taken:
            return
        shown = self._url.render_as_string(hide_password=True)
        if taken is None:
            raise DatabaseRefused(shown, "its search_path names no schema that exists")
        holder = connection.exec_driver_sql(_HOLDER).first()
        if holder is None or holder.application_name == self._name:
            raise DatabaseAway(shown, "the server still has to end an earlier connection")
        place = "" if holder.host is None else f" from {holder.host}"
        raise DatabaseTaken(shown, f"process {holder.pid} of PostgreSQL{place}")


def _drop(connection: Connection) -> None:
    """Close a connection for good, instead of giving it back to its pool."""
    connection.invalidate()
    connection.close()
