"""A database belongs to one service at a time.

A service takes all jobs and matrices of its database for its own: a second one would fail the
first's jobs and call its matrices damaged. The lock of the data folder does not keep it out, since
two folders may name one database. So the database has a lock, too:

- SQLite: a lock on a file beside the database's own.
- PostgreSQL: one advisory lock of the schema. Each connection of a service has it, shared with the
  service's others alone. So without the lock nothing is written, and as long as there is any
  connection no other service gets it. The server ends the connections with their process, and 25
  seconds after the last word of a machine that is gone.

After a restart of PostgreSQL the first new connection takes the lock again; who waits for the lock
lets it go first. If another service was quicker nevertheless, this one no longer uses the database.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import OperationalError as PostgresAway

from wavetrim.service.storage.database.database import find_sqlite_path, open_database, read_url
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused, DatabaseTaken
from wavetrim.service.storage.lock_file import (
    LockTaken,
    describe_process,
    describe_service,
    take_lock,
)
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 30.0
"""How long a start waits for a database that does not answer, or is in use; chosen."""

_PAUSE_SECONDS: Final = 0.5

_SET: Final = """
    SELECT set_config(name, value, false) FROM pg_settings JOIN (VALUES
    -- After 10 s of silence the server asks three times, 5 s apart, whether the machine is there.
    ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
    ('idle_session_timeout', '0'), ('application_name', %s)) AS wanted (name, value) USING (name)
"""
_FIND_KEY: Final = """
    SELECT (2002876005::bigint << 32) + oid::bigint FROM pg_namespace
    WHERE nspname = current_schema()
"""
"""The lock's number is "wave" in ASCII, and the schema's number."""

_TAKE_ALONE: Final = "SELECT pg_try_advisory_lock(%s)"
_LET_OWN_IN: Final = "SELECT pg_advisory_lock_shared(%(key)s), pg_advisory_unlock(%(key)s)"
_JOIN_OWN: Final = "SELECT pg_try_advisory_lock_shared(%s)"
_FIND_OTHER: Final = """
    SELECT concat_ws(' ', coalesce(application_name, 'connection ' || pid || ' of PostgreSQL'),
        'from ' || host(client_addr), 'since ' || date_trunc('second', backend_start))
    FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database ON oid = database
    WHERE locktype = 'advisory' AND granted AND pg_database.datname = current_database()
    AND (classid::bigint << 32) + objid::bigint = %s AND application_name IS DISTINCT FROM %s
    ORDER BY backend_start LIMIT 1
"""
_FIND_AGE: Final = "SELECT extract(epoch FROM now() - pg_postmaster_start_time())"

_NAME_BYTES: Final = 63
"""The longest name of a connection that PostgreSQL keeps."""

_FIRST_SECONDS: Final = 15.0
"""For how long after its server's start only the service that had a database before may claim it.
That service looks for it every second (`KeyRing`). Chosen."""


def claim_database(url: str, data_dir: Path, *, was_taken: bool = False) -> Engine:
    """Opens a database for a service, and keeps others out of it; one of theirs is not opened.

    Commands that only read, or write keys, claim nothing.

    Args:
        url: As for `open_database`.
        data_dir: The service's data folder, for words.
        was_taken: Whether another service had the database when this one asked before.

    Returns:
        The database. It belongs to this process until it is disposed of, or the process ends.

    Raises:
        SettingRefused: The URL names another kind of database, or no file.
        DatabaseTaken: Another service has it.
        DatabaseAway: Its server cannot be reached now.
        DatabaseRefused: It cannot be used.
    """
    parsed = read_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _claim_file(parsed, url, data_dir)
    lock = _ServerLock(parsed, data_dir, was_taken=was_taken)
    return open_database(url, on_connect=lock.take)


async def wait_for_database(url: str, data_dir: Path, given_up: asyncio.Event) -> Engine:
    """Claims a database; tries again while it is away or another's, for a limited time.

    Args:
        url: As for `claim_database`.
        data_dir: Likewise.
        given_up: Set to stop trying.

    Raises:
        DatabaseAway: It is still away.
        ServiceError: The other refusals.
    """
    until = time.monotonic() + WAIT_SECONDS
    was_taken = is_told = False
    while True:
        try:
            return await run_to_end(claim_database, url, data_dir, was_taken=was_taken)
        except DatabaseAway as error:
            if time.monotonic() >= until or given_up.is_set():
                raise
            if not is_told:
                logger.warning("%s; it is waited for, %g s at most", error, WAIT_SECONDS)
            is_told, was_taken = True, was_taken or isinstance(error, DatabaseTaken)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(given_up.wait(), _PAUSE_SECONDS)


def _claim_file(parsed: URL, url: str, data_dir: Path) -> Engine:
    """Open SQLite's file, under the lock beside it."""
    path = Path(f"{os.path.realpath(find_sqlite_path(parsed))}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path, describe_service(data_dir))
    except LockTaken as taken:
        raise DatabaseTaken(str(parsed), str(taken), data_dir) from taken
    except OSError as error:
        raise DatabaseRefused(str(parsed), f"{path}: {error.strerror}") from error
    try:
        database = open_database(url)
    except BaseException:
        os.close(lock)
        raise
    event.listen(database, "engine_disposed", lambda _: os.close(lock), once=True)
    return database


class _ServerLock:
    """PostgreSQL's lock, taken by each connection before it is used. Thread-safe.

    Args:
        url: The database.
        data_dir: The service's data folder, for words.
        was_taken: Whether another service had the lock a while ago.
    """

    def __init__(self, url: URL, data_dir: Path, *, was_taken: bool) -> None:
        self._shown = url.render_as_string(hide_password=True)
        self._data_dir = data_dir
        self._was_taken = was_taken
        name = f"wavetrim {uuid.uuid4().hex[:8]}, {describe_process()}"
        self._name = name.encode("ascii", "replace").decode()[:_NAME_BYTES]
        self._began = False
        self._lost: DatabaseTaken | None = None
        self._lock = threading.Lock()

    def take(self, connection: Any) -> None:
        """Take the lock with a new connection.

        Raises:
            DatabaseRefused: The first connection does not get it.
            sqlalchemy.exc.OperationalError: A later one does not.
        """
        with self._lock:
            try:
                self._take(connection)
                connection.commit()
            except BaseException as error:
                connection.close()  # for good: SQLAlchemy would leave it open
                if self._began and isinstance(error, DatabaseRefused):
                    if isinstance(error, DatabaseTaken) and self._lost is None:
                        logger.critical("%s; this one stays out: end one of the two", error)
                        self._lost = error
                    raise PostgresAway("BEGIN", None, error) from error
                raise
            self._began = True

    def _take(self, connection: Any) -> None:
        if self._lost is not None:
            raise self._lost
        connection.execute(_SET, [self._name])
        found = connection.execute(_FIND_KEY).fetchone()
        if found is None:
            raise DatabaseRefused(self._shown, "its search_path names no schema that exists")
        (key,) = found
        if self._was_taken and not self._began:
            self._expect_no_other(connection, key)
            (age_seconds,) = connection.execute(_FIND_AGE).fetchone()
            if age_seconds < _FIRST_SECONDS:
                reason = "its server has just started; another service had it"
                raise DatabaseAway(self._shown, reason)
        ask = _JOIN_OWN if self._began else _TAKE_ALONE
        (taken,) = connection.execute(ask, [key]).fetchone()
        self._expect_no_other(connection, key)
        if not taken:
            raise DatabaseAway(self._shown, "another service had it a moment ago")
        if not self._began:
            connection.execute(_LET_OWN_IN, {"key": key})

    def _expect_no_other(self, connection: Any, key: int) -> None:
        other = connection.execute(_FIND_OTHER, [key, self._name]).fetchone()
        if other is not None:
            raise DatabaseTaken(self._shown, other[0], self._data_dir)
