"""How far a product is: the rows of C that each side has finished."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

Side = Literal["gpu", "cpu"]

_DECIMALS: Final = 6
"""Decimals of the rows that are reported; chosen."""


@dataclass(frozen=True, slots=True)
class RowsDone:
    """Finished rows of C; a part of a row counts as a fraction.

    Attributes:
        all: Rows of C.
        gpu: Rows that the GPU has finished.
        cpu: Rows that the CPU has finished.
        nodes: Rows that have come back from other hosts.
    """

    all: int
    gpu: float = 0.0
    cpu: float = 0.0
    nodes: float = 0.0

    @property
    def share(self) -> float:
        """The finished share of C's rows, 0…1."""
        return min(1.0, (self.gpu + self.cpu + self.nodes) / self.all)


class RowCounter:
    """Adds up the rows that both sides finish, and reports them.

    Args:
        rows: Rows of C.
        report: Called with the rows that are done, from any thread; None for no reports.
    """

    def __init__(self, rows: int, report: Callable[[RowsDone], None] | None) -> None:
        self._rows = rows
        self._sums: dict[Side, float] = {"gpu": 0.0, "cpu": 0.0}
        self._report = report
        self._lock = threading.Lock()

    def add(self, side: Side, rows: float) -> None:
        """Add newly finished rows. Thread-safe.

        What is reported is rounded: many fractions add up to a little more than all rows.
        """
        if self._report is None:
            return
        with self._lock:
            self._sums[side] += rows
            done = {one: round(sum_, _DECIMALS) for one, sum_ in self._sums.items()}
            self._report(RowsDone(self._rows, gpu=done["gpu"], cpu=done["cpu"]))
