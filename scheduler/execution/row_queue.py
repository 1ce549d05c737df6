"""Where the two parts of a product meet: the GPU takes rows from the top, the CPU from the bottom.

The planned F is where they should meet. Whoever is there early goes on with what the other has not
taken yet, so a wrong prediction or a busy core costs about a panel.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from wavetrim.kernels.pipeline.flow import PANELS_AHEAD
from wavetrim.scheduler.execution.outlook import START, Milestone, Standing
from wavetrim.scheduler.execution.pieces import Pieces

PACE_PANELS: Final = 3
"""Panels by which the GPU's pace is told."""


class RowQueue:
    """The rows of C that nobody has taken yet. Safe to use from several threads.

    Args:
        rows: M, the rows of C.
        f: Rows planned for the CPU, 0…M.
        pieces: How many rows the CPU takes at a time where the boundary may move; None where
            neither part may take rows that were planned for the other.
        clock: Returns seconds; the GPU begins when it is first asked, which is here.
    """

    def __init__(
        self,
        rows: int,
        f: int,
        pieces: Pieces | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._planned = rows - f
        self._pieces = pieces if 0 < f < rows else None
        self._top = 0
        self._bottom = rows
        self._rows = rows
        self._lock = threading.Lock()
        self._clock = clock
        self._started = self._cpu_started = clock()
        self._panel_ends: list[int] = []
        self._computed = [START]

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
            if self._top > start:
                self._note_panel()
            return range(start, self._top)

    def take_rest(self) -> range:
        """All rows that are left, once neither part takes any more; counted as the CPU's.

        The CPU leaves the last ones to the GPU, which does not come back for any if it walks
        through its rows several times.
        """
        with self._lock:
            stop, self._bottom = self._bottom, self._top
            return range(self._bottom, stop)

    def take_bottom(self, rows_in_hand: float) -> range:
        """The next rows from the bottom; empty when none are left that are worth taking.

        Without a moving boundary all planned ones at once.

        Args:
            rows_in_hand: Rows that the CPU has taken and not done.
        """
        with self._lock:
            most = self._bottom - self._planned
            if self._bottom == self._rows:
                self._cpu_started = self._clock()
            if self._pieces is not None:
                most = self._pieces.choose_rows(self._look(rows_in_hand))
            stop, self._bottom = self._bottom, max(self._bottom - max(most, 0), self._top)
            return range(self._bottom, stop)

    def _note_panel(self) -> None:
        """Tell from the GPU's taking a panel which one it has computed."""
        self._panel_ends.append(self._top)
        if len(self._panel_ends) > PANELS_AHEAD:
            rows = self._panel_ends[-1 - PANELS_AHEAD]
            self._computed.append(Milestone(rows, self._clock() - self._started))

    def _look(self, rows_in_hand: float) -> Standing:
        now = self._clock()
        return Standing(
            top=self._top,
            bottom=self._bottom,
            elapsed_seconds=now - self._started,
            cpu_seconds=now - self._cpu_started,
            in_hand=rows_in_hand,
            computed=self._computed[-1],
            computed_before=self._computed[-1 - PACE_PANELS :][0],
        )
