"""The wall clock, and its steps.

Times that are kept are the wall clock's, because people read them and they outlive the process. But
it may step: set by hand, by NTP, by a virtual machine that wakes up. What is removed for its age
must not go for that. So times are never taken earlier than the clock would say had it not stepped
since the last look, and a step that is noticed lets all ages begin anew.
"""

import time
from typing import Final

STEP_SECONDS: Final = 5.0
"""A clock that is corrected gradually moves less than this between two looks."""


class WallClock:
    """The time for what is kept. Thread-safe."""

    def __init__(self) -> None:
        self._ahead_seconds = _measure_ahead()

    def stamp(self) -> float:
        """The time now, UTC seconds since the epoch, or later where the clock was set back."""
        return max(time.time(), _read_steady() + self._ahead_seconds)

    def measure_step(self) -> float:
        """By how many seconds the clock has stepped since `follow` was called; 0 for hardly any."""
        step_seconds = _measure_ahead() - self._ahead_seconds
        return step_seconds if abs(step_seconds) > STEP_SECONDS else 0.0

    def follow(self) -> None:
        """Take the clock as it is now for right."""
        self._ahead_seconds = _measure_ahead()


def _read_steady() -> float:
    """Seconds since the machine was started, those while it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _measure_ahead() -> float:
    return time.time() - _read_steady()


wall_clock: Final = WallClock()
"""This process's."""
