"""Turns of threads that compute beside each other, for all of which a fork waits."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from weakref import WeakSet


class OwnTurns:
    """A lock for each thread: no thread waits for another, but `take_all` for every one.

    A count of running threads would take two locks in a row, and an interrupt between them would
    leave it wrong.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._entrance = threading.Lock()
        self._all: WeakSet[AbstractContextManager[bool]] = WeakSet()

    def find(self) -> AbstractContextManager[bool]:
        """The calling thread's turn."""
        with self._entrance:  # who computes on and on would take its turn again before `take_all`
            try:
                turn: AbstractContextManager[bool] = self._own.turn
            except AttributeError:
                turn = self._own.turn = threading.RLock()  # a signal handler may fork
                self._all.add(turn)
        return turn

    @contextmanager
    def take_all(self) -> Iterator[None]:
        """Wait until no thread has its turn, and let none begin until the block ends."""
        with self._entrance, ExitStack() as taken:
            for turn in tuple(self._all):
                taken.enter_context(turn)
            yield
