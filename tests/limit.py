"""Limits of wall-clock time for tests: they grow with what else wants the machine's cores.

    began = time.monotonic()
    ...
    assert time.monotonic() - began < allow(2)

A failure shows the limit with the machine's load: `assert 7.1 < 4.5 s (2 s, load 4.5 of 2 cores)`.
"""

import os
from pathlib import Path
from typing import Self


class Limit(float):
    """Seconds that something may take, as busy as the machine is.

    Args:
        seconds: On a machine that does nothing else.
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
    """The limit for what takes at most so many seconds on a quiet machine."""
    average, *_, processes, _ = Path("/proc/loadavg").read_text().split()
    running = int(processes.split("/")[0]) - 1  # without who asks
    return Limit(seconds, max(float(average), running), len(os.sched_getaffinity(0)))
