"""How many rows the CPU takes at a time, where the GPU may have those that it has not taken."""

from dataclasses import dataclass, field
from typing import Final

from scheduler.cost import CostCurve, rows_within

LEAST_SECONDS: Final = 200e-6
LEAST_SHARE: Final = 0.03
"""A piece is worth at least so much of the CPU's time, or such a share of the plan's."""

MOST_OVERHEAD: Final = 0.25
"""What a piece costs before its first row, as a share of what its rows cost, at most."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of one product, by what both parts should take. Pure.

    Attributes:
        gpu: The GPU's curve beside the CPU.
        cpu: The CPU's beside the GPU.
        rows: M, the rows of C.
        total_seconds: What the plan should take.
        least_rows: Rows of the smallest piece that is worth its start.
    """

    gpu: CostCurve
    cpu: CostCurve
    rows: int
    total_seconds: float
    least_rows: int = field(init=False)

    def __post_init__(self) -> None:
        start_seconds = 2 * self.cpu.seconds(1) - self.cpu.seconds(2)
        least_seconds = max(
            LEAST_SECONDS,
            LEAST_SHARE * self.total_seconds,
            start_seconds * (1 + 1 / MOST_OVERHEAD),
        )
        rows = rows_within(self.cpu, least_seconds, self.rows)
        object.__setattr__(self, "least_rows", max(1, rows))

    def choose_rows(self, top: int, bottom: int, planned: int, elapsed_seconds: float) -> int:
        """How many rows to take from the bottom; 0 to leave all that are left to the GPU.

        Half of the planned ones that are left, so that the GPU can have the others if the CPU is
        slow, and a small piece beyond them. Never so many that the GPU would be done with all rows
        that are left before the CPU is with these; then as many as both should end at the same
        time with.

        Args:
            top: Rows that the GPU has taken.
            bottom: Rows that the CPU has not taken, counted from the top.
            planned: Rows that are planned for the GPU.
            elapsed_seconds: Seconds since both parts began.
        """
        wanted = self._want_rows(bottom - planned, bottom - top)

        def ends_in_time(rows: int, left: int) -> bool:
            seconds = self.estimate_gpu_seconds(top, left, elapsed_seconds)
            return self.cpu.seconds(rows) <= seconds

        if ends_in_time(wanted, bottom):
            return wanted
        fits, exceeds = 0, wanted
        while exceeds - fits > 1:
            middle = (fits + exceeds) // 2
            if ends_in_time(middle, bottom - middle):
                fits = middle
            else:
                exceeds = middle
        return fits if 2 * fits >= self.least_rows else 0

    def estimate_gpu_seconds(self, top: int, bottom: int, elapsed_seconds: float) -> float:
        """What the GPU should still take for all rows above `bottom`, of which it has `top`.

        Some of those that it has taken are not computed: it is as far as its curve has it. If it
        seems to be behind that, at least those are left that it has not taken.
        """
        end_seconds = self.gpu.seconds(bottom)
        return end_seconds - min(elapsed_seconds, self.gpu.seconds(min(top, bottom)))

    def _want_rows(self, planned: int, left: int) -> int:
        if planned <= 0:
            return min(self.least_rows, left)
        half = max(self.least_rows, -(-planned // 2))
        return min(left, planned if planned < half + self.least_rows / 2 else half)
