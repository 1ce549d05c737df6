"""The rows of a result that are final, as its parts report them."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

_CPU: Final = 1 << 16
"""Number of the CPU part, after all GPU parts."""


class FinalRows:
    """The rows of C that will not be written again, as reported by all parts.

    Args:
        report: Called with all of them, from any thread: a range of each GPU, up to two of the CPU.
    """

    def __init__(self, report: Callable[[Sequence[range]], None] | None) -> None:
        self._report = report
        self._rows: dict[int, list[range]] = {}
        self._lock = threading.Lock()

    def open_gpu(self, part: int, start: int) -> Callable[[range], None] | None:
        """Callback of a GPU part for its final rows, 0…r of its own; None if there is no `report`.

        Args:
            part: Number of the part, from 0.
            start: Its first row of C.
        """
        return None if self._report is None else lambda rows: self._take(part, start, [rows])

    def open_cpu(self, start: int) -> Callable[[Sequence[range]], None] | None:
        """Callback of the CPU part for its final rows; None if there is no `report`.

        Args:
            start: The row of C from which it counts.
        """
        return None if self._report is None else lambda rows: self._take(_CPU, start, rows)

    def _take(self, part: int, start: int, rows: Sequence[range]) -> None:
        assert self._report is not None, "parts report rows only if there is a `report`"
        with self._lock:
            self._rows[part] = [range(start + one.start, start + one.stop) for one in rows]
            found = [one for number in sorted(self._rows) for one in self._rows[number]]
            self._report([one for one in found if one])
