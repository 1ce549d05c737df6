"""How many rows the CPU takes at a time, where the GPU may have those that it has not taken."""

from dataclasses import dataclass, field, replace
from typing import Final

from wavetrim.scheduler.execution.outlook import Outlook, Standing
from wavetrim.scheduler.model.cost import CostCurve, CpuCurve, rows_within

LEAST_SECONDS: Final = 200e-6
LEAST_SHARE: Final = 0.03
"""A piece is worth at least so much of the CPU's time, or such a share of the plan's."""

LEAST_PART: Final = 2
"""Nor is it less than such a part of a round, whose blocks would be small."""

SHARE: Final = 0.5
"""Of the rows that the CPU is to take, what is taken at once. A CPU that takes twice as long as
planned is done with the first piece when all was to be done."""

SLACK: Final = 0.04
"""Share of the plan's time by which the CPU may seem to end after the GPU with the planned rows."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of one product, by what both parts should take and have taken. Pure.

    Attributes:
        gpu: The GPU's curve beside the CPU.
        cpu: The CPU's beside the GPU.
        rows: M, the rows of C.
        planned: Rows that are planned for the GPU.
        total_seconds: What the plan should take.
        round_rows: Rows that occupy all threads with blocks of the best size, at least 1.
        least_rows: Rows of the smallest piece that is worth taking.
    """

    gpu: CostCurve
    cpu: CpuCurve
    rows: int
    planned: int
    total_seconds: float
    round_rows: int
    least_rows: int = field(init=False)

    def __post_init__(self) -> None:
        line = replace(self.cpu, vector_seconds=0.0)  # on which a vector's product is not
        start_seconds = 2 * line.seconds(1) - line.seconds(2)
        least_seconds = max(LEAST_SECONDS, LEAST_SHARE * self.total_seconds)
        rows = rows_within(self.cpu, start_seconds + least_seconds, self.rows)
        object.__setattr__(self, "least_rows", max(1, rows, self.round_rows // LEAST_PART))

    def choose_rows(self, standing: Standing) -> int:
        """How many rows to take from the bottom; 0 to leave all that are left to the GPU.

        Half of those that the CPU should still take, in rounds of all threads; all of them where
        little would be left.
        """
        part = self._choose_part(standing)
        if part < min(self.least_rows / 2, self.rows - self.planned):
            return 0
        piece = -(-round(SHARE * part) // self.round_rows) * self.round_rows
        piece = max(piece, self.least_rows)
        return part if part < piece + max(self.round_rows / 2, self.least_rows) else piece

    def look(self, standing: Standing) -> Outlook:
        """What both parts should still take."""
        return Outlook(self.gpu, self.cpu, self.rows, self.total_seconds, self.round_rows, standing)

    def _choose_part(self, standing: Standing) -> int:
        """All rows that the CPU should still take.

        Those that are planned, as long as both may end at the same time with them; otherwise as
        many as make them do so, by what was seen of both.
        """
        most = standing.bottom - standing.top
        planned = standing.bottom - self.planned
        if standing.bottom == self.rows:  # nothing is known but the plan
            return min(planned, most)
        outlook = self.look(standing)
        balanced = self._balance(outlook, most)
        if 0 < planned <= most and balanced < planned + self.least_rows:
            gpu_seconds = outlook.estimate_gpu_seconds(self.planned)
            slack_seconds = SLACK * self.total_seconds
            if outlook.estimate_cpu_seconds(planned) <= gpu_seconds + slack_seconds:
                return planned
        return balanced

    def _balance(self, outlook: Outlook, most: int) -> int:
        """The most rows with which the CPU ends no later than the GPU, to a few."""
        bottom = outlook.standing.bottom
        fits, exceeds = 0, most + 1
        while exceeds - fits > max(1, self.least_rows // 8):
            middle = (fits + exceeds) // 2
            cpu_seconds = outlook.estimate_cpu_seconds(middle)
            if cpu_seconds <= outlook.estimate_gpu_seconds(bottom - middle):
                fits = middle
            else:
                exceeds = middle
        return fits
