"""Lets large writes step aside while the database writes.

A commit is a few kilobytes and its caller waits for it; a matrix is gigabytes, and the disk serves
both in turn.
"""

import threading

from sqlalchemy import Connection, Engine, event

_MARK = "commit_gate"


class CommitGate:
    """Counts the transactions under way that write. Thread-safe."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._commits = 0

    def enter(self) -> None:
        """A transaction begins."""
        with self._free:
            self._commits += 1

    def leave(self) -> None:
        """It has ended."""
        with self._free:
            self._commits -= 1
            if self._commits == 0:
                self._free.notify_all()

    def wait(self, most_seconds: float) -> bool:
        """Waits until none is under way, but no longer than this; returns whether there is none."""
        with self._free:
            return self._free.wait_for(lambda: self._commits == 0, most_seconds)


def watch_commits(database: Engine, gate: CommitGate) -> None:
    """Has every transaction that writes to a database pass through a gate."""

    @event.listens_for(database, "begin")
    def enter(connection: Connection) -> None:
        if not connection.get_execution_options().get("only_reads", False):
            connection.info[_MARK] = True
            gate.enter()

    # There is no event behind a commit; the connection goes back to the pool right after it.
    @event.listens_for(database, "checkin")
    def leave(_connection: object, record: object) -> None:
        if record.info.pop(_MARK, False):  # type: ignore[attr-defined]
            gate.leave()
