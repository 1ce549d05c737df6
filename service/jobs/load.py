"""What an engine has to do: its products, and when they should end."""

import time
from typing import Final

from wavetrim.service.jobs.turn import Turn

AHEAD: Final = 8
"""So many small products may be with the engine at once."""


class Load:
    """What one engine has to do.

    Attributes:
        runs: Its products, and when each should end if it began at once, by the monotonic clock.
    """

    def __init__(self) -> None:
        self.runs: dict[str, tuple[Turn, float]] = {}
        self._large = 0

    def add(self, job: str, turn: Turn, seconds: float) -> bool:
        """A product was sent to it; tells whether it had nothing else to do."""
        was_idle = not self.runs
        self.runs[job] = turn, time.monotonic() + self.find_busy() + seconds
        self._large += not turn.is_small
        return was_idle

    def remove(self, job: str) -> None:
        """A product has ended."""
        turn, _ = self.runs.pop(job)
        self._large -= not turn.is_small

    def has_room(self, turn: Turn) -> bool:
        """Whether this machine's engine may have one more: a few small ones, or a single one."""
        if not self.runs:
            return True
        return turn.is_small and self._large == 0 and len(self.runs) < AHEAD

    def find_busy(self) -> float:
        """For how many seconds it should be busy: at least a little while it has something."""
        if not self.runs:
            return 0.0
        last = max(end for _, end in self.runs.values())
        return max(1e-3, last - time.monotonic())
