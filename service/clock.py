"""The wall clock, and its steps.

Times that are stored are wall-clock times, because people read them and they outlive the process.
But that clock may step: by hand, by NTP, when a virtual machine wakes up. A step must not make
matrices or jobs look old enough to be removed. So a time is never earlier than without the steps
since the last look, and once a step is noticed all ages begin anew.
"""

import time
from typing import Final

STEP_SECONDS: Final = 5.0
"""Least change between two looks that counts as a step; chosen, above all gradual corrections."""


class WallClock:
    """The clock of times that are stored. Thread-safe."""

    def __init__(self) -> None:
        self._ahead_seconds = _measure_ahead()

    def stamp(self) -> float:
        """The time now, UTC seconds since the epoch, or later where the clock was set back."""
        return max(time.time(), _read_steady() + self._ahead_seconds)

    def measure_step(self) -> float:
        """Seconds that the clock has stepped since `follow` was called; 0 below STEP_SECONDS."""
        step_seconds = _measure_ahead() - self._ahead_seconds
        return step_seconds if abs(step_seconds) > STEP_SECONDS else 0.0

    def follow(self) -> None:
        """Accept the clock as it is now."""
        self._ahead_seconds = _measure_ahead()


def _read_steady() -> float:
    """Seconds since the machine was started, with those while it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _measure_ahead() -> float:
    return time.time() - _read_steady()


wall_clock: Final = WallClock()
"""The clock of this process."""
