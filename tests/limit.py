"""Limits of time for tests, which grow with the machine's load, or with its slowness.

    began = time.monotonic()
    ...
    assert time.monotonic() - began < allow(2)

    began = time.thread_time()
    ...
    assert time.thread_time() - began < allow_python(0.01)

A failure shows the limit with its reason: `assert 7.1 < 4.5 s (2 s, load 4.5 of 2 cores)`.
"""

import os
import time
from pathlib import Path

_LOOP_STEPS = 20_000
_LOOP_SECONDS = 4e-3
"""A loop of the interpreter, and what it may take on a core for which limits are given. On two
cores of a shared server it takes 3 to 5 ms, from one minute to the next."""


class Limit(float):
    """Seconds that something may take on this machine now: a limit times a factor."""

    def __new__(cls, seconds, factor, reason):
        limit = super().__new__(cls, seconds * max(1.0, factor))
        limit._told = f"{float(limit):.3g} s ({seconds:.3g} s, {reason})"
        return limit

    def __repr__(self):
        return self._told


def allow(seconds):
    """The limit now of what may take these seconds on an idle machine."""
    load, cores = _read_load()
    return Limit(seconds, load / cores, f"load {load:.1f} of {cores} cores")


def allow_python(seconds):
    """The limit now of what may take these seconds of the interpreter's own time."""
    load, cores = _read_load()
    slowness = min(_time_loop() for _ in range(5)) / _LOOP_SECONDS
    reason = f"load {load:.1f} of {cores} cores, the interpreter takes {slowness:.2f} times as long"
    return Limit(seconds, max(slowness, load / cores), reason)


def _read_load():
    """Threads that run or wait for a core, and the cores of this process."""
    average, *_, processes, _ = Path("/proc/loadavg").read_text().split()
    running = int(processes.split("/")[0]) - 1  # without this thread
    return max(float(average), running), len(os.sched_getaffinity(0))


def _time_loop():
    began = time.thread_time()
    pairs = {}
    for step in range(_LOOP_STEPS):
        pairs[step % 97] = step, min(step, 5)
    return time.thread_time() - began
