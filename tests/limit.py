"""Limits of time for tests, which grow with the machine's load.

    began = time.monotonic()
    ...
    assert time.monotonic() - began < allow(2)

A failure shows the limit with its reason: `assert 7.1 < 4.5 s (2 s, load 4.5 of 2 cores)`.
"""

import os
from pathlib import Path


class Limit(float):
    """Seconds that something may take on this machine now."""

    def __new__(cls, seconds, load, cores):
        limit = super().__new__(cls, seconds * max(1.0, load / cores))
        limit._told = f"{float(limit):.3g} s ({seconds:.3g} s, load {load:.1f} of {cores} cores)"
        return limit

    def __repr__(self):
        return self._told


def allow(seconds):
    """The limit now of what may take these seconds on an idle machine."""
    average, *_, processes, _ = Path("/proc/loadavg").read_text().split()
    running = int(processes.split("/")[0]) - 1  # threads that run or wait for a core, without this
    return Limit(seconds, max(float(average), running), len(os.sched_getaffinity(0)))
