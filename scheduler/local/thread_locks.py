"""Locks for threads that compute at the same time, one each; a fork waits for all of them."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from weakref import WeakSet


class ThreadLocks:
    """A lock for each thread: no thread waits for another, but `lock_all` for every one.

    A count of running threads would take two locks in a row, and an interrupt between them would
    leave it wrong.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._finding = threading.Lock()
        self._all: WeakSet[AbstractContextManager[bool]] = WeakSet()

    def find(self) -> AbstractContextManager[bool]:
        """The calling thread's lock; waits while `lock_all` has or awaits the locks."""
        with self._finding:
            try:
                lock: AbstractContextManager[bool] = self._own.lock
            except AttributeError:
                lock = self._own.lock = threading.RLock()  # a signal handler may fork
                self._all.add(lock)
        return lock

    def keep_all(self) -> None:
        """Wait until no thread has its lock, and let none take it any more."""
        self._finding.acquire()
        for lock in tuple(self._all):
            lock.__enter__()

    @contextmanager
    def lock_all(self) -> Iterator[None]:
        """Wait until no thread has its lock, and let none take it until the block ends."""
        with self._finding, ExitStack() as taken:
            for lock in tuple(self._all):
                taken.enter_context(lock)
            yield
