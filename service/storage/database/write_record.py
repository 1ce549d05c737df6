"""Whether writing works: the last failed write of each kind, until one succeeds."""

import threading
from typing import Literal

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError

Place = Literal["database", "data_dir"]


class WriteRecord:
    """Remembers for each place why the last write failed. Thread-safe."""

    def __init__(self) -> None:
        self._failures: dict[Place, str] = {}
        self._lock = threading.Lock()

    def note_failure(self, place: Place, reason: str) -> None:
        """A write has failed."""
        with self._lock:
            self._failures[place] = reason

    def note_success(self, place: Place) -> None:
        """A write has succeeded."""
        with self._lock:
            self._failures.pop(place, None)

    @property
    def failures(self) -> dict[Place, str]:
        """Where the last write failed, and why."""
        with self._lock:
            return dict(self._failures)


def watch_writes(database: Engine, record: WriteRecord) -> None:
    """Notes of every writing transaction whether it succeeds."""

    @event.listens_for(database, "commit")
    def note_commit(connection: Connection) -> None:
        # This comes before the commit; a failure of it is noted afterwards.
        if not connection.get_execution_options().get("only_reads", False):
            record.note_success("database")

    @event.listens_for(database, "handle_error")
    def note_error(context: ExceptionContext) -> None:
        connection = context.connection
        reads = connection is not None and connection.get_execution_options().get("only_reads")
        if reads or isinstance(context.sqlalchemy_exception, IntegrityError):
            return
        reason = str(context.original_exception).strip().partition("\n")[0]
        record.note_failure("database", f"the last write failed ({reason})")
