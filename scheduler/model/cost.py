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
        """Rough number of rows that take `seconds`; searches begin there."""


def rows_within(curve: CostCurve, seconds: float, limit: int) -> int:
    """Largest number of rows, at most `limit`, that the device finishes within `seconds`.

    Exact for any non-decreasing curve: from the curve's estimate, steps of doubling length find a
    bracket, which is then bisected.
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

    The start-up cost is the wake-up of the pool and reading B, which takes the same time for few
    rows and for many: below `startup_rows`, memory bounds the product, not arithmetic.

    Attributes:
        row_seconds: Seconds of a further row: 2 N K / rate, and writing it.
        startup_rows: Additional cost of the first row, in rows.
        call_seconds: Seconds to start and join the pool.
        row_quantum: Blocks have a multiple of this number of rows.
        vector_seconds: Most seconds of a product of one row: the time of reading B. 0 if not
            measured.
        correction: Factor from earlier runs of its class.
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
        """Rough number of rows that take `seconds`."""
        rows_seconds = seconds / self.correction.factor - self.call_seconds
        return rows_seconds / self.row_seconds - self.startup_rows
