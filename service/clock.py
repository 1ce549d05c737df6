"""The clock of times that are stored: the wall clock as a start finds it, and a steady one since.

Stored times outlive the process, so they are the wall clock's. But that clock may step: by hand, by
NTP, when a virtual machine wakes up. A step must not make matrices or jobs look old, so it counts
from the next start on.
"""

import time
from typing import Final

_BOOT_TIME: Final = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
"""When the machine was started, by the wall clock of this process's start."""


def read_clock() -> float:
    """The time now, in UTC seconds since the epoch."""
    return _BOOT_TIME + time.clock_gettime(time.CLOCK_BOOTTIME)
