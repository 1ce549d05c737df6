"""Cost curves: rows of C → seconds on one device, never decreasing."""

from dataclasses import dataclass
from typing import Protocol

from wavetrim.scheduler.model.corrections import UNCORRECTED, Correction
from wavetrim.scheduler.model.waves import divide_up


class CostCurve(Protocol):
    """Seconds that one device takes for its rows of a product."""

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows: 0 without rows, and never less for more rows."""

    def estimate_rows(self, seconds: float) -> float:
        """About how many rows take `seconds`: a place to begin a search, of any quality."""


def rows_within(curve: CostCurve, seconds: float, limit: int) -> int:
    """The most rows, at most `limit`, that the device finishes within `seconds`.

    Exact for any non-decreasing curve: steps of doubling length lead from the curve's own estimate
    to a bracket, which is then bisected.
    """
    if curve.seconds(limit) <= seconds:
        return limit
    start = int(min(max(curve.estimate_rows(seconds), 0.0), limit))
    step = 1
    if curve.seconds(start) <= seconds:
        fits, exceeds = start, start + step
        while exceeds < limit and curve.seconds(exceeds) <= seconds:
            step *= 2
            fits, exceeds = exceeds, exceeds + step
        exceeds = min(exceeds, limit)
    else:
        fits, exceeds = start - step, start
        while fits > 0 and curve.seconds(fits) > seconds:
            step *= 2
            fits, exceeds = fits - step, fits
        fits = max(fits, 0)
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if curve.seconds(middle) <= seconds:
            fits = middle
        else:
            exceeds = middle
    return fits


@dataclass(frozen=True, slots=True)
class CpuCurve:
    """The CPU's curve: a line with a start-up cost, rising in steps of `row_quantum` rows.

    The start-up stands for the pool's wake-up and for B, which few rows must read as well as
    many: below `startup_rows` the product is bound by memory rather than by arithmetic.

    Attributes:
        row_seconds: Seconds for one more row at full rate, 2 N K / rate, and to write it.
        startup_rows: Rows' worth of time that the first row costs on top.
        call_seconds: Seconds to start and join the pool.
        row_quantum: Rows that the blocks round up to.
        vector_seconds: Seconds for one row, where it is less: a vector and a matrix are multiplied
            as fast as memory is read. 0 where that was not measured.
        correction: What earlier runs of its class say of these figures.
    """

    row_seconds: float
    startup_rows: float = 0.0
    call_seconds: float = 0.0
    row_quantum: int = 1
    vector_seconds: float = 0.0
    correction: Correction = UNCORRECTED

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows."""
        if rows == 0:
            return 0.0
        rounded = divide_up(rows, self.row_quantum) * self.row_quantum
        seconds = self.call_seconds + (rounded + self.startup_rows) * self.row_seconds
        if rows == 1 and self.vector_seconds:
            seconds = min(seconds, self.vector_seconds)
        return self.correction.factor * seconds

    def estimate_rows(self, seconds: float) -> float:
        """About how many rows take `seconds`."""
        rows_seconds = seconds / self.correction.factor - self.call_seconds
        return rows_seconds / self.row_seconds - self.startup_rows
