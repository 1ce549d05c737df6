"""A database belongs to one service at a time.

A service takes all jobs and matrices of its database for its own: a second one would fail the
first's jobs and call its matrices damaged. The lock of the data folder does not keep it out, since
two folders may name one database. So the database has a lock, too, which ends with the process:

- SQLite: a lock on a file beside the database's own.
- PostgreSQL: an advisory lock of the schema, on a connection of its own. A service's connections
  have a name, and another one takes no lock while the server has any of them. The server ends them
  with the process, and 25 seconds after the last word of a machine that is gone.

With its connection a service loses PostgreSQL's lock. It takes it again before it makes any other
connection; who waits for the lock lets it go first. If another service was quicker nevertheless,
this one no longer uses the database.
"""

import fcntl
import logging
import os
import threading
import uuid
from pathlib import Path
from typing import Any, Final, Protocol

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

_SETTINGS: Final = """
    SELECT set_config(name, value, false) FROM pg_settings JOIN (VALUES
    -- After 10 s of silence the server asks three times, 5 s apart, whether the machine is there.
    ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
    ('idle_session_timeout', '0')) AS wanted (name, value) USING (name)
"""
_FIND_SCHEMA: Final = "SELECT oid FROM pg_namespace WHERE nspname = current_schema()"
_LOCK: Final = (
    "SELECT pg_try_advisory_lock((2002876005::bigint << 32) + {schema}), pg_backend_pid()"
)
"""The lock's number is "wave" in ASCII, and the schema's number."""

_SEE_LOCK: Final = "SELECT FROM pg_locks WHERE classid = 2002876005 AND pid = %s AND granted"

_LIST_OTHERS: Final = """
    SELECT pid, host(client_addr) FROM pg_stat_activity
    WHERE datname = current_database() AND starts_with(application_name, 'wavetrim {schema} ')
    AND application_name <> '{name}' ORDER BY pid
"""
_FIND_AGE: Final = "SELECT extract(epoch FROM now() - pg_postmaster_start_time())"

_FIRST_SECONDS: Final = 15.0
"""How long after its server's start a database is its former service's, which looks for it every
5 s (`Housekeeping`). Chosen."""


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


class Claiming:
    """Tries to keep other services out of a database, until it is theirs no more.

    Commands that only read, or write keys, claim nothing.

    Args:
        url: As for `open_database`; the database may be empty.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._was_taken = False

    def __call__(self) -> Claim:
        """Try once.

        Returns:
            The lock, which ends when it is closed, or with the process.

        Raises:
            SettingRefused: The URL names another kind of database, or no file.
            DatabaseTaken: Another service has it.
            DatabaseAway: Its server cannot be reached now.
            DatabaseRefused: It cannot be used.
        """
        parsed = read_url(self._url)
        if parsed.get_backend_name() == "sqlite":
            return _FileClaim(parsed)
        try:
            return _ServerClaim(parsed, waits=self._was_taken)
        except DatabaseTaken:
            self._was_taken = True
            raise
        except DBAPIError as error:
            raise explain_refusal(parsed, error) from error


def claim_database(url: str) -> Claim:
    """Keeps other services out of a database; see `Claiming`."""
    return Claiming(url)()


class _FileClaim:
    """The lock beside SQLite's file, which cannot be lost."""

    def __init__(self, url: URL) -> None:
        lock = Path(f"{os.path.realpath(find_sqlite_path(url))}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
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
    """PostgreSQL's lock.

    Args:
        url: The database.
        waits: Whether another service had the lock a while ago.
    """

    def __init__(self, url: URL, *, waits: bool) -> None:
        self._url = url
        self._engine = open_postgres(url)
        self._number = uuid.uuid4().hex
        self._name, self._backend = "", 0
        self._lock = threading.Lock()
        self._taken: DatabaseTaken | None = None
        self._connection: Connection | None = self._take(waits=waits)

    def guard(self, database: Engine) -> None:
        """Name all connections, and have each new one look for the lock first.

        What ends a connection may have ended the lock's, too.
        """

        @event.listens_for(database, "connect")
        def expect_held(connection: Any, _record: object) -> None:
            self._keep(beside=connection)
            connection.execute(_SETTINGS)
            connection.execute(f"SET application_name = '{self._name}'")
            connection.commit()

        @event.listens_for(database, "begin")
        def expect_not_taken(_: Connection) -> None:
            self._refuse_if_taken()

        database.dispose()  # earlier connections have no name

    def keep(self) -> None:
        """Ask the server something on the lock's connection; without an answer, make another."""
        self._keep(beside=None)

    def _keep(self, *, beside: Any) -> None:
        """As `keep`; the lock must be seen from a connection `beside` it, unless that is None."""
        with self._lock:
            self._refuse_if_taken()
            if self._answers() and (beside is None or self._is_seen(beside)):
                return
            self._let_go()
            try:
                self._connection = self._take(waits=False)
            except DatabaseRefused as error:
                if isinstance(error, DatabaseTaken):
                    logger.critical("%s; this one stays out: end one of the two", error)
                    self._taken = error
                raise PostgresAway("BEGIN", None, error) from error
            logger.warning("the database's lock was lost with its connection, and is taken again")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._let_go()
            self._engine.dispose()

    def _answers(self) -> bool:
        """Whether the lock's connection is open."""
        if self._connection is None:
            return False
        try:
            self._connection.exec_driver_sql("SELECT 1")
        except DBAPIError:
            return False
        return True

    def _is_seen(self, other: Any) -> bool:
        """Whether another connection leads to the same server: its address may have moved on."""
        return other.execute(_SEE_LOCK, [self._backend]).fetchone() is not None

    def _let_go(self) -> None:
        if self._connection is not None:
            _drop(self._connection)
            self._connection = None

    def _refuse_if_taken(self) -> None:
        if self._taken is not None:
            raise PostgresAway("BEGIN", None, self._taken)

    def _take(self, *, waits: bool) -> Connection:
        """A new connection that holds the lock."""
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            connection.exec_driver_sql(_SETTINGS)
            self._lock_schema(connection, waits=waits)
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _lock_schema(self, connection: Connection, *, waits: bool) -> None:
        schema = connection.exec_driver_sql(_FIND_SCHEMA).scalar()
        if schema is None:
            raise DatabaseRefused(self._shown, "its search_path names no schema that exists")
        self._name = f"wavetrim {schema} {self._number}"
        others = _LIST_OTHERS.format(schema=schema, name=self._name)
        other = connection.exec_driver_sql(others).first()
        if other is not None:
            place = "" if other.host is None else f" from {other.host}"
            raise DatabaseTaken(self._shown, f"process {other.pid} of PostgreSQL{place}")
        if waits and connection.exec_driver_sql(_FIND_AGE).scalar_one() < _FIRST_SECONDS:
            raise DatabaseAway(self._shown, "its server has just started; another service had it")
        taken, self._backend = connection.exec_driver_sql(_LOCK.format(schema=schema)).one()
        if not taken:
            raise DatabaseAway(self._shown, "the server still has to end an earlier connection")
        # Not before: of two services that start at once, each would see the other.
        connection.exec_driver_sql(f"SET application_name = '{self._name}'")

    @property
    def _shown(self) -> str:
        return self._url.render_as_string(hide_password=True)


def _drop(connection: Connection) -> None:
    """Close a connection for good, instead of giving it back to its pool."""
    connection.invalidate()
    connection.close()
