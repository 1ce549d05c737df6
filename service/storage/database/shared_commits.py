"""Commits that are shared: what arrives while one is under way is committed by the next, together.

A commit waits for the disk, and costs as much for one change as for a hundred. Changes of a kind
share their statements, too (`Together`). A commit begins at once if none is under way. Nobody is
told of a change before it is committed.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wavetrim.service.storage.database.database import find_reason

Item = TypeVar("Item")
R = TypeVar("R")

Change = Callable[[Connection], R]
"""Changes rows in a transaction. If it raises, it has changed nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Together(Generic[Item, R]):
    """A change that shares its statements with others of its kind in a commit.

    Attributes:
        change: Makes some of them, and returns what each has found.
        item: What is changed by this one.
    """

    change: Callable[[Connection, Sequence[Item]], Sequence[R]]
    item: Item

    def __call__(self, connection: Connection) -> R:
        """Make this one alone."""
        return self.change(connection, [self.item])[0]


def make_all(connection: Connection, changes: Sequence[Change[Any]]) -> list[Any]:
    """Make changes, in any order, those of a kind together; returns what they return."""
    all_ = [one if isinstance(one, Together) else Together(_make_each, one) for one in changes]
    kinds: dict[Any, list[Together[Any, Any]]] = {}
    for one in all_:
        kinds.setdefault(one.change, []).append(one)
    results: dict[Together[Any, Any], Any] = {}
    for change, alike in kinds.items():
        results |= zip(alike, change(connection, [one.item for one in alike]), strict=True)
    return [results[one] for one in all_]


def _make_each(connection: Connection, changes: Sequence[Change[R]]) -> list[R]:
    return [change(connection) for change in changes]


MOST_SHARED: Final = 256
"""Changes in one commit; chosen, so that the first need not wait long for the last."""


class CommitLost(SQLAlchemyError):
    """The database has not answered a commit: it may have taken place or not.

    Attributes:
        cause: What the driver has raised.
    """

    def __init__(self, cause: SQLAlchemyError) -> None:
        super().__init__(f"the answer to a commit was lost: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class _Asked:
    """A change, and whether its commit waits for the disk."""

    change: Change[Any]
    durable: bool
    done: Future[Any] = field(default_factory=Future)


class SharedCommits:
    """Commits changes, in order, in a thread of its own. Thread-safe.

    Args:
        database: What they change.

    Attributes:
        failure: Why the last commit has failed; None if it has not.
    """

    def __init__(self, database: Engine) -> None:
        self.failure: str | None = None
        self._database = database
        self._idle = threading.Event()
        self._idle.set()
        self._asked: SimpleQueue[_Asked] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commits")

    def add(self, change: Change[R], *, durable: bool = True) -> "Future[R]":
        """Have a change made and committed.

        Args:
            change: The change. It is called again if one beside it could not be made.
            durable: Whether the commit waits for the disk; a power cut may undo others.

        Returns:
            What the change returns, once it is committed; or what it or the database has raised,
            `CommitLost` for the commit itself.
        """
        asked = _Asked(change, durable)
        self._asked.put(asked)
        self._thread.submit(self._commit_waiting)
        return asked.done

    def wait_idle(self, most_seconds: float) -> None:
        """Wait until no commit is under way, but no longer than this.

        A commit is a few kilobytes and its caller waits for it; who writes gigabytes to the same
        disk lets it go first.
        """
        self._idle.wait(most_seconds)

    def close(self) -> None:
        """Commit what was added, and end the thread."""
        self._thread.shutdown()

    def _commit_waiting(self) -> None:
        """Commit what waits, unless a commit before has taken it along."""
        batch: list[_Asked] = []
        while len(batch) < MOST_SHARED and not self._asked.empty():
            batch.append(self._asked.get())
        if batch:
            self._idle.clear()
            self._commit_all(batch)
            self._idle.set()

    def _commit_all(self, batch: list[_Asked]) -> None:
        """Commit changes together; if one cannot be made, each by itself."""
        try:
            results = self._try_all(batch)
        except BaseException as error:
            if len(batch) > 1 and not isinstance(error, CommitLost):
                for asked in batch:
                    self._commit_all([asked])
                return
            if isinstance(error, SQLAlchemyError) and not isinstance(error, IntegrityError):
                self.failure = f"the last write failed ({find_reason(error)})"
            for asked in batch:
                asked.done.set_exception(error)
            return
        self.failure = None
        for asked, result in zip(batch, results, strict=True):
            asked.done.set_result(result)

    def _try_all(self, batch: list[_Asked]) -> list[Any]:
        """Make and commit changes; returns what they return."""
        durable = any(asked.durable for asked in batch)
        with self._database.connect().execution_options(unsynced=not durable) as connection:
            transaction = connection.begin()
            try:
                results = make_all(connection, [asked.change for asked in batch])
            except BaseException:
                transaction.rollback()
                raise
            try:
                transaction.commit()
            except SQLAlchemyError as error:
                connection.invalidate()  # it may still be in the transaction
                raise CommitLost(error) from error
            return results
