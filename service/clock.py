"""The clock of times that are stored: the wall clock as a start finds it, and a steady one since.

Stored times outlive the process, so they are the wall clock's. But that clock may step: by hand, by
NTP, when a virtual machine wakes up. A step must not make matrices or jobs look old, so it counts
from the next start on.
"""

import time
from datetime import UTC, datetime
from typing import Final

_BOOT_TIME: Final = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
"""When the machine was started, by the wall clock of this process's start."""

_LAST_TIME: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def read_clock() -> float:
    """The time now, in UTC seconds since the epoch."""
    return _BOOT_TIME + time.clock_gettime(time.CLOCK_BOOTTIME)


def read_time(text: str) -> float:
    """A time such as 2026-03-01T12:00:00Z, in UTC seconds since the epoch.

    Raises:
        ValueError: It is not one, or names no time zone.
    """
    time_read = datetime.fromisoformat(text)
    if time_read.tzinfo is None:
        raise ValueError("no time zone")
    return time_read.timestamp()


def show_time(seconds: float) -> datetime:
    """A time as it is sent; one after the year 9999 as its end."""
    return datetime.fromtimestamp(min(seconds, _LAST_TIME), UTC)
