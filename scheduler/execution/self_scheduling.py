"""The rule of the moving boundary: both parts share the rows by their measured speeds.

Weighted factoring (Hummel, Schmidt, Uma and Wein, 1996), a form of guided self-scheduling: each
part has a share of the remaining rows in proportion to its speed. The CPU takes half of its share
at a time, so a CPU that is half as fast as planned has finished one piece at the planned end. The
GPU takes panels until only the CPU's share is left.

Two rules keep a late message from moving the boundary. The GPU's speed is the planned one until its
first panel is computed, and is measured from then on: the time before says when it started, not how
fast it is. The CPU takes rows beyond its planned ones only once it has taken all of these.
"""

from dataclasses import dataclass
from typing import Final

TRUST: Final = 0.2
"""Weight of the planned speeds against the measured ones, as a share of the plan's time; chosen. On
30 simulated splits, 0.1 to 0.3 differ by less than 1%."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of both parts.

    Attributes:
        top: Rows that the GPU has taken.
        bottom: Rows that the CPU has not taken, counted from the top.
        gpu_rows: Rows that the GPU has computed, as far as known.
        gpu_seconds: When that was known, in seconds since the GPU began.
        first_rows: `gpu_rows` when the first panel was known to be computed.
        first_seconds: `gpu_seconds` at that time.
        elapsed_seconds: Seconds since the GPU began.
        cpu_rows: Rows that the CPU has computed, as far as known.
        cpu_seconds: Seconds since the CPU took its first rows.
    """

    top: int
    bottom: int
    gpu_rows: float = 0.0
    gpu_seconds: float = 0.0
    first_rows: float = 0.0
    first_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    cpu_rows: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SelfSchedule:
    """The rule for one product. Pure.

    Attributes:
        rows: M, the rows of C.
        planned: Rows planned for the GPU, 1…M-1.
        total_seconds: Predicted seconds of the plan.
        round_rows: Rows with one block of the best size for each thread of the CPU.
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

    def choose_piece(self, progress: Progress) -> int:
        """Rows that the CPU takes now; 0 to leave the rest to the GPU.

        Half of its share, in rounds of all threads. All of it if little would be left, or if the
        GPU would reach the rest before the CPU comes back. None beyond the CPU's planned rows while
        some of these are left.
        """
        share = self.find_share(progress)
        if share < self.least_rows / 2:
            return 0
        own = progress.bottom - self.planned
        if own > 0:
            share = min(share, own)
        half = -(-round(share / 2) // self.round_rows) * self.round_rows
        piece = max(half, self.least_rows)
        if share < piece + max(self.round_rows / 2, self.least_rows):
            return share
        gpu_speed, cpu_speed = self._find_speeds(progress)
        gpu_comes = (progress.bottom - share - progress.top) / gpu_speed
        begun = progress.bottom < self.rows
        return share if begun and piece / cpu_speed >= gpu_comes else piece

    def find_limit(self, progress: Progress) -> int:
        """End of the rows that the GPU may take: its planned ones, and up to the CPU's share."""
        planned = min(self.planned, progress.bottom)
        share = self.find_share(progress)
        if share < self.least_rows / 2:
            return progress.bottom
        limit = progress.bottom - share
        return max(planned, progress.top, limit - limit % self.tile_rows)

    def find_share(self, progress: Progress) -> int:
        """The CPU's share: the rows, of those not taken, with which both parts end together.

        It is the planned number if that is nearly the same.
        """
        planned = progress.bottom - self.planned
        rows = progress.bottom - progress.top
        if progress.bottom == self.rows and progress.top <= self.planned:
            return planned  # the CPU has not begun
        gpu_speed, cpu_speed = self._find_speeds(progress)
        gpu_late = progress.elapsed_seconds - progress.gpu_seconds
        gpu_rows = max(0.0, progress.top - progress.gpu_rows - gpu_speed * gpu_late)
        cpu_rows = max(0.0, self.rows - progress.bottom - progress.cpu_rows)
        both = cpu_speed * (gpu_rows + rows) - gpu_speed * cpu_rows
        share = min(rows, max(0, round(both / (gpu_speed + cpu_speed))))
        near = 0 <= planned <= rows and abs(share - planned) < self.least_rows / 2
        return planned if near else share

    def _find_speeds(self, progress: Progress) -> tuple[float, float]:
        """Rows a second of GPU and CPU; each begins with its planned speed."""
        trust_seconds = TRUST * self.total_seconds
        gpu_rows = progress.gpu_rows - progress.first_rows + TRUST * self.planned
        gpu_seconds = progress.gpu_seconds - progress.first_seconds + trust_seconds
        cpu_rows = progress.cpu_rows + TRUST * (self.rows - self.planned)
        return gpu_rows / gpu_seconds, cpu_rows / (progress.cpu_seconds + trust_seconds)
