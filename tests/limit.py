"""Limits of wall-clock time for tests, which grow with the machine's load.

    began = time.monotonic()
    ...
    assert time.monotonic() - began < allow(2)

A failure shows the limit with the machine's load: `assert 7.1 < 4.5 s (2 s, load 4.5 of 2 cores)`.
"""

import os
from pathlib import Path
from typing import Self


class Limit(float):
    """Seconds that something may take at the machine's present load.

    Args:
        seconds: Its limit on an idle machine.
        load: Threads that run or wait for a core.
        cores: Those of this process.
    """

    def __new__(cls, seconds: float, load: float, cores: int) -> Self:
        limit = super().__new__(cls, seconds * max(1.0, load / cores))
        limit._told = f"{float(limit):.3g} s ({seconds:.3g} s, load {load:.1f} of {cores} cores)"
        return limit

    _told: str

    def __repr__(self) -> str:
        return self._told


def allow(seconds: float) -> Limit:
    """The limit now of what may take these seconds on an idle machine."""
    average, *_, processes, _ = Path("/proc/loadavg").read_text().split()
    running = int(processes.split("/")[0]) - 1  # without this thread
    return Limit(seconds, max(float(average), running), len(os.sched_getaffinity(0)))
