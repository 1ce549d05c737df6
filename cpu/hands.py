"""The blocks that threads have in hand, and how much of them is left to do."""

import threading
import time


class Hands:
    """Tells from the blocks that were done how far those are that were begun.

    Safe to use from several threads, each of which has one block at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, tuple[float, float]] = {}
        self._done_rows = 0.0
        self._done_seconds = 0.0

    def begin(self, rows: float) -> None:
        """Note that the calling thread begins a block."""
        with self._lock:
            self._begun[threading.get_ident()] = rows, time.perf_counter()

    def end(self) -> None:
        """Note that the calling thread has done its block."""
        with self._lock:
            rows, begun = self._begun.pop(threading.get_ident())
            self._done_rows += rows
            self._done_seconds += time.perf_counter() - begun

    def count_rows(self) -> float:
        """Rows that are left of the blocks in hand, if these take as long a row as those before."""
        now = time.perf_counter()
        with self._lock:
            pace = self._done_rows / self._done_seconds if self._done_seconds else 0.0
            hands = list(self._begun.values())
        return sum(max(0.0, rows - pace * (now - begun)) for rows, begun in hands)
