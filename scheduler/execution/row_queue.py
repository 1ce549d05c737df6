"""The row queue: the GPU part takes rows from the top, the CPU part from the bottom.

They should meet at the planned F. A part that is early goes on with rows planned for the other, so
a wrong prediction or a busy core costs about a panel.
"""

import threading
import time
from collections.abc import Callable

from wavetrim.native.tuned import PANELS_AHEAD
from wavetrim.scheduler.execution.self_scheduling import Progress, SelfSchedule


class RowQueue:
    """The rows of C that no part has taken yet. Thread-safe.

    Args:
        rows: M, the rows of C.
        f: Rows planned for the CPU, 0…M.
        schedule: Rule of the moving boundary; None if it does not move.
        clock: Seconds. The GPU part begins when the queue is created.
    """

    def __init__(
        self,
        rows: int,
        f: int,
        schedule: SelfSchedule | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._planned = rows - f
        self._schedule = schedule if 0 < f < rows else None
        self._top = 0
        self._bottom = self._rows = rows
        self._lock = threading.Lock()
        self._clock = clock
        self._started = self._cpu_started = clock()
        self._panel_ends: list[int] = []
        self._gpu_rows, self._gpu_seconds = 0, 0.0
        self._first_rows, self._first_seconds = 0, 0.0
        self._cpu_rows = 0.0
        self._gpu_ended = self._cpu_ended = False

    @property
    def moves(self) -> bool:
        """Whether the boundary may move."""
        return self._schedule is not None

    @property
    def f(self) -> int:
        """Rows that the CPU has taken."""
        with self._lock:
            return self._rows - self._bottom

    def take_top(self, most: int) -> range:
        """Take up to `most` rows from the top; empty if none are left for the GPU."""
        with self._lock:
            limit = self._find_limit()
            start, self._top = self._top, max(self._top, min(self._top + most, limit))
            if self._top > start:
                self._note_panel()
            else:
                self._gpu_ended = True
            return range(start, self._top)

    def take_bottom(self, rows_in_hand: float) -> range:
        """Take rows from the bottom; empty if no rows are left that are worth taking.

        If the boundary does not move, all planned rows at once.

        Args:
            rows_in_hand: Rows that the CPU has taken but not computed.
        """
        with self._lock:
            if self._bottom == self._rows:
                self._cpu_started = self._clock()
            self._cpu_rows = max(self._cpu_rows, self._rows - self._bottom - rows_in_hand)
            piece = self._choose_piece()
            stop, self._bottom = self._bottom, max(self._bottom - piece, self._top)
            self._cpu_ended = self._bottom == stop
            return range(self._bottom, stop)

    def take_rest(self) -> range:
        """Take all rows that both parts have left, for the CPU.

        The CPU leaves the last rows to the GPU. But a GPU that goes through its rows several times,
        once for each group of columns, takes no new ones after the first time.
        """
        with self._lock:
            stop, self._bottom = self._bottom, self._top
            return range(self._bottom, stop)

    def note_cpu_rows(self, rows: float) -> None:
        """Record rows that the CPU has computed."""
        with self._lock:
            self._cpu_rows += rows

    def _find_limit(self) -> int:
        if self._schedule is None:
            return self._planned
        if self._cpu_ended:
            return self._bottom
        return self._top if self._gpu_ended else self._schedule.find_limit(self._measure_progress())

    def _choose_piece(self) -> int:
        if self._schedule is None:
            return max(0, self._bottom - self._planned)
        if self._gpu_ended:
            return self._bottom - self._top
        return self._schedule.choose_piece(self._measure_progress())

    def _note_panel(self) -> None:
        """Record a panel that the GPU takes: the one PANELS_AHEAD before it is computed then."""
        self._panel_ends.append(self._top)
        if len(self._panel_ends) > PANELS_AHEAD:
            self._gpu_rows = self._panel_ends[-1 - PANELS_AHEAD]
            self._gpu_seconds = self._clock() - self._started
            if not self._first_rows:
                self._first_rows, self._first_seconds = self._gpu_rows, self._gpu_seconds

    def _measure_progress(self) -> Progress:
        now = self._clock()
        return Progress(
            top=self._top,
            bottom=self._bottom,
            gpu_rows=self._gpu_rows,
            gpu_seconds=self._gpu_seconds,
            first_rows=self._first_rows,
            first_seconds=self._first_seconds,
            elapsed_seconds=now - self._started,
            cpu_rows=min(self._cpu_rows, self._rows - self._bottom),
            cpu_seconds=now - self._cpu_started,
        )
