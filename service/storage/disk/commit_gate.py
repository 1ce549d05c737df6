"""Lets large writes wait while the database commits.

A commit is a few kilobytes and its caller waits for it; a matrix is gigabytes, and both share the
disk.
"""

import threading

from sqlalchemy import Connection, Engine, event

_MARK = "commit_gate"


class CommitGate:
    """Counts the writing transactions that are open. Thread-safe."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._commits = 0

    def enter(self) -> None:
        """A transaction begins."""
        with self._free:
            self._commits += 1

    def leave(self) -> None:
        """A transaction has ended."""
        with self._free:
            self._commits -= 1
            if self._commits == 0:
                self._free.notify_all()

    def wait(self, most_seconds: float) -> bool:
        """Waits until none is open, but no longer than this; returns whether none is."""
        with self._free:
            return self._free.wait_for(lambda: self._commits == 0, most_seconds)


def watch_commits(database: Engine, gate: CommitGate) -> None:
    """Has a gate count the writing transactions of a database."""

    @event.listens_for(database, "begin")
    def enter(connection: Connection) -> None:
        if not connection.get_execution_options().get("only_reads", False):
            connection.info[_MARK] = True
            gate.enter()

    # There is no event after a commit, but the connection goes back to the pool right then.
    @event.listens_for(database, "checkin")
    def leave(_connection: object, record: object) -> None:
        if record.info.pop(_MARK, False):  # type: ignore[attr-defined]
            gate.leave()
