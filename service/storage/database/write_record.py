"""The database's writes: why the last one failed, and whether one is under way.

Large writes of files wait while the database commits: a commit is a few kilobytes and its caller
waits for it, a matrix is gigabytes, and both share the disk.
"""

import threading
from typing import Literal

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError

Target = Literal["database", "data_dir"]

_MARK = "writes"


class WriteRecord:
    """Remembers why the last write failed, and counts writing transactions. Thread-safe."""

    def __init__(self) -> None:
        self._failures: dict[Target, str] = {}
        self._lock = threading.Condition()
        self._open = 0

    def note_failure(self, target: Target, reason: str) -> None:
        """A write has failed."""
        with self._lock:
            self._failures[target] = reason

    def note_success(self, target: Target) -> None:
        """A write has succeeded."""
        with self._lock:
            self._failures.pop(target, None)

    @property
    def failures(self) -> dict[Target, str]:
        """Where the last write failed, and why."""
        with self._lock:
            return dict(self._failures)

    def enter(self) -> None:
        """A writing transaction begins."""
        with self._lock:
            self._open += 1

    def leave(self) -> None:
        """A writing transaction has ended."""
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._lock.notify_all()

    def wait(self, most_seconds: float) -> bool:
        """Waits until no transaction writes, but no longer than this; returns whether none does."""
        with self._lock:
            return self._lock.wait_for(lambda: self._open == 0, most_seconds)


def watch_writes(database: Engine, record: WriteRecord) -> None:
    """Tells a record of every writing transaction: when it begins and ends, and how."""

    @event.listens_for(database, "begin")
    def enter(connection: Connection) -> None:
        if not _only_reads(connection):
            connection.info[_MARK] = True
            record.enter()

    # There is no event after a commit, but the connection goes back to the pool right then.
    @event.listens_for(database, "checkin")
    def leave(_connection: object, pooled: object) -> None:
        if pooled.info.pop(_MARK, False):  # type: ignore[attr-defined]
            record.leave()

    @event.listens_for(database, "commit")
    def note_commit(connection: Connection) -> None:
        # This comes before the commit; a failure of it is noted afterwards.
        if not _only_reads(connection):
            record.note_success("database")

    @event.listens_for(database, "handle_error")
    def note_error(context: ExceptionContext) -> None:
        connection = context.connection
        reads = connection is not None and _only_reads(connection)
        if reads or isinstance(context.sqlalchemy_exception, IntegrityError):
            return
        reason = str(context.original_exception).strip().partition("\n")[0]
        record.note_failure("database", f"the last write failed ({reason})")


def _only_reads(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get("only_reads", False))
