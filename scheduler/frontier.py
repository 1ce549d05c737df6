"""Where the two parts of a product meet: the GPU takes rows from the top, the CPU from the bottom.

The planned F is where they should meet. Whoever is there early goes on with what the other has not
taken yet, so a wrong prediction or a busy core costs about a panel.
"""

import threading

from scheduler.pieces import Pieces


class Frontier:
    """The rows of C that nobody has taken yet. Safe to use from several threads.

    Args:
        rows: M, the rows of C.
        f: Rows planned for the CPU, 0…M.
        pieces: How many rows the CPU takes at a time where the boundary may move; None where
            neither part may take rows that were planned for the other.
    """

    def __init__(self, rows: int, f: int, pieces: Pieces | None) -> None:
        self._planned = rows - f
        self._pieces = pieces if 0 < f < rows else None
        self._top = 0
        self._bottom = rows
        self._rows = rows
        self._lock = threading.Lock()

    @property
    def moves(self) -> bool:
        """Whether the boundary may move."""
        return self._pieces is not None

    @property
    def f(self) -> int:
        """Rows that the CPU has taken."""
        with self._lock:
            return self._rows - self._bottom

    def take_top(self, most: int) -> range:
        """The next rows from the top, at most so many; empty when there are none left."""
        with self._lock:
            limit = self._bottom if self.moves else self._planned
            start, self._top = self._top, min(self._top + most, limit)
            return range(start, self._top)

    def take_rest(self) -> range:
        """All rows that are left, once neither part takes any more; counted as the CPU's.

        The CPU leaves the last ones to the GPU, which does not come back for any if it walks
        through its rows several times.
        """
        with self._lock:
            stop, self._bottom = self._bottom, self._top
            return range(self._bottom, stop)

    def take_bottom(self, elapsed_seconds: float) -> range:
        """The next rows from the bottom; empty when none are left that are worth taking.

        Without a moving boundary all planned ones at once.

        Args:
            elapsed_seconds: Seconds since both parts began.
        """
        with self._lock:
            most = self._bottom - self._planned
            if self._pieces is not None:
                most = self._pieces.choose_rows(
                    self._top, self._bottom, self._planned, elapsed_seconds
                )
            stop, self._bottom = self._bottom, max(self._bottom - max(most, 0), self._top)
            return range(self._bottom, stop)
