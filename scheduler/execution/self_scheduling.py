"""How both parts share the rows of a product while they compute, by what was seen of their speeds.

Weighted factoring (Hummel, Schmidt, Uma and Wein, 1996), a form of guided self-scheduling: of the
rows that are left, each part is due a share in proportion to its speed. The CPU takes half of its
share at a time, so one that takes twice as long as planned is found out when all was to be done.
The GPU takes panels until only the CPU's share is left. Simulated on 40 splits, this takes 1.00
times as long as the planned F pinned where the plan is right, 0.71 where the CPU is half as fast.
"""

from dataclasses import dataclass
from typing import Final

TRUST: Final = 0.2
"""Share of the plan's time that counts as seen to be as planned, before anything is seen; between
0.1 and 0.3 a simulation shows differences below 1%."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far both parts are.

    Attributes:
        top: Rows that the GPU has taken.
        bottom: Rows that the CPU has not taken, counted from the top.
        gpu_rows: Rows that the GPU is known to have computed.
        gpu_seconds: When it had, in seconds since it began.
        elapsed_seconds: Seconds since it began.
        cpu_rows: Rows that the CPU is known to have computed.
        cpu_seconds: Seconds since it took its first rows.
    """

    top: int
    bottom: int
    gpu_rows: float = 0.0
    gpu_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    cpu_rows: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SelfSchedule:
    """The rule, for one product. Pure.

    Attributes:
        rows: M, the rows of C.
        planned: Rows that are planned for the GPU, 1…M-1.
        total_seconds: What the plan should take.
        round_rows: Rows that occupy all threads of the CPU with blocks of the best size.
        tile_rows: Rows of the kernel's tile.
    """

    rows: int
    planned: int
    total_seconds: float
    round_rows: int
    tile_rows: int

    @property
    def least_rows(self) -> int:
        """Rows of the smallest piece that is worth taking: half a round."""
        return min(max(1, self.round_rows // 2), self.rows - self.planned)

    def choose_piece(self, standing: Standing) -> int:
        """How many rows the CPU takes from the bottom; 0 to leave all that are left to the GPU.

        Half of its share, in rounds of all threads; all of it where little would be left, or the
        GPU would be there first.
        """
        share = self.find_share(standing)
        if share < self.least_rows / 2:
            return 0
        half = -(-round(share / 2) // self.round_rows) * self.round_rows
        piece = max(half, self.least_rows)
        if share < piece + max(self.round_rows / 2, self.least_rows):
            return share
        gpu_speed, cpu_speed = self._find_speeds(standing)
        gpu_comes = (standing.bottom - share - standing.top) / gpu_speed
        begun = standing.bottom < self.rows
        return share if begun and piece / cpu_speed >= gpu_comes else piece

    def find_limit(self, standing: Standing) -> int:
        """Where the GPU's rows end: after the planned ones, where the CPU is not due the next."""
        planned = min(self.planned, standing.bottom)
        share = self.find_share(standing)
        if share < self.least_rows / 2:
            return standing.bottom
        limit = standing.bottom - share
        return max(planned, standing.top, limit - limit % self.tile_rows)

    def find_share(self, standing: Standing) -> int:
        """How many of the rows that nobody has taken the CPU should compute.

        With them both parts end at the same time, or with the planned ones to within a piece.
        """
        planned = standing.bottom - self.planned
        rows = standing.bottom - standing.top
        if standing.bottom == self.rows and standing.top <= self.planned:
            return planned  # nothing has been seen of the CPU
        gpu_speed, cpu_speed = self._find_speeds(standing)
        gpu_late = standing.elapsed_seconds - standing.gpu_seconds
        gpu_rows = max(0.0, standing.top - standing.gpu_rows - gpu_speed * gpu_late)
        cpu_rows = max(0.0, self.rows - standing.bottom - standing.cpu_rows)
        both = cpu_speed * (gpu_rows + rows) - gpu_speed * cpu_rows
        share = min(rows, max(0, round(both / (gpu_speed + cpu_speed))))
        near = 0 <= planned <= rows and abs(share - planned) < self.least_rows / 2
        return planned if near else share

    def _find_speeds(self, standing: Standing) -> tuple[float, float]:
        """Rows a second of the GPU and of the CPU, each as planned before it is seen."""
        trust_seconds = TRUST * self.total_seconds
        gpu_rows = standing.gpu_rows + TRUST * self.planned
        cpu_rows = standing.cpu_rows + TRUST * (self.rows - self.planned)
        gpu_speed = gpu_rows / (standing.gpu_seconds + trust_seconds)
        return gpu_speed, cpu_rows / (standing.cpu_seconds + trust_seconds)
