"""Where the two parts of a product meet: the GPU takes rows from the top, the CPU from the bottom.

The planned F is where they should meet. Whoever is there early goes on with what the other has not
taken yet, so a wrong prediction or a busy core costs about a panel.
"""

import threading
from typing import Final

LEAST_ROWS: Final = 64
"""Rows that the CPU takes at a time, at least: it reads all of B for each of them together."""


class Frontier:
    """The rows of C that nobody has taken yet. Safe to use from several threads.

    Args:
        rows: M, the rows of C.
        f: Rows planned for the CPU, 0…M.
        moves: Whether either part may take rows that were planned for the other.
    """

    def __init__(self, rows: int, f: int, *, moves: bool) -> None:
        self._planned = rows - f
        self._moves = moves and 0 < f < rows
        self._top = 0
        self._bottom = rows
        self._rows = rows
        self._lock = threading.Lock()

    @property
    def moves(self) -> bool:
        """Whether the boundary may move."""
        return self._moves

    @property
    def f(self) -> int:
        """Rows that the CPU has taken."""
        with self._lock:
            return self._rows - self._bottom

    def take_top(self, most: int) -> range:
        """The next rows from the top, at most so many; empty when there are none left."""
        with self._lock:
            limit = self._bottom if self._moves else self._planned
            start, self._top = self._top, min(self._top + most, limit)
            return range(start, self._top)

    def take_bottom(self) -> range:
        """The next rows from the bottom; empty when there are none left.

        Without a moving boundary all planned ones at once; with it half of those that are left, so
        that the GPU can have the others if the CPU is slow, and few at a time beyond them.
        """
        with self._lock:
            planned = self._bottom - self._planned
            if not self._moves:
                most = planned
            elif planned > 0:
                most = min(planned, max(LEAST_ROWS, -(-planned // 2)))
            else:
                most = LEAST_ROWS
            stop, self._bottom = self._bottom, max(self._bottom - max(most, 0), self._top)
            return range(self._bottom, stop)
