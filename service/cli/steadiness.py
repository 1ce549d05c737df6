"""Whether a machine is at rest: by how much the times of the same work differ, and who else works.

A constant load slows all runs alike, so they do not differ and do not show it. It shows in the
system's counters of the cores: what they did, less what this process did. Time that a host takes
from its guest counts as that of others.
"""

import os
import resource
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wavetrim.cpu.threads import usable_cores
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

MOST_SPREAD: Final = 0.15
"""Largest spread of runs at which a machine's times are reliable; chosen."""

_MOST_OTHERS: Final = 0.05
"""Share of the cores that others may use without a remark; chosen."""

_SIDE: Final = 1024
_RUNS: Final = 3
_PRODUCTS: Final = 7
"""Products of a run, which is their median, so that an interrupted one does not count; chosen."""

_IDLE_FIELDS: Final = (3, 4)
_GUEST_FIELDS: Final = slice(8, None)  # counted as user time already


Runs = dict[str, list[float]]
"""Seconds of each run of a product, by device."""


def time_product(executor: Executor, profile: MachineProfile, runs: Runs) -> None:
    """Add some runs on the CPU and, if there is one, the GPU.

    Args:
        executor: Computes them.
        profile: What plans are made from; F is given, so it hardly matters.
        runs: The runs so far.
    """
    problem = GemmProblem(_SIDE, _SIDE, _SIDE)
    a = np.ones((_SIDE, _SIDE), np.float32)
    c = np.empty_like(a)
    rows = {"CPU": _SIDE, **({"GPU": 0} if executor.devices else {})}
    for name, f in rows.items():
        plan = choose_plan(problem, profile, PlanOptions(f=f))
        executor.run(plan, a, a, c)  # warms up
        for _ in range(_RUNS):
            seconds = [executor.run(plan, a, a, c).total_seconds for _ in range(_PRODUCTS)]
            runs.setdefault(name, []).append(statistics.median(seconds))


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """Time that the cores of this process have worked, up to a moment.

    Attributes:
        at_seconds: The moment, by the monotonic clock.
        busy_seconds: Time that all cores together worked for any process.
        own_seconds: Time that this process and its ended children have used.
        cores: How many cores there are.
    """

    at_seconds: float
    busy_seconds: float
    own_seconds: float
    cores: int


def read_core_times(root: Path = Path("/")) -> CoreTimes | None:
    """Read the counters; None if the system does not tell.

    Args:
        root: Where proc/ is found.
    """
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        lines = [line.split() for line in (root / "proc/stat").read_text().splitlines()]
    except OSError:
        return None
    cores = [[int(count) for count in line[1:]] for line in lines if line and line[0] in mine]
    ticks = sum(sum(core) - sum(core[_GUEST_FIELDS]) for core in cores)
    idle = sum(core[index] for core in cores for index in _IDLE_FIELDS)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return CoreTimes(
        at_seconds=time.monotonic(),
        busy_seconds=(ticks - idle) / os.sysconf("SC_CLK_TCK"),
        own_seconds=sum(usage.ru_utime + usage.ru_stime for usage in usages),
        cores=len(cores),
    )


def describe_others(before: CoreTimes | None, after: CoreTimes | None) -> str | None:
    """A remark on other programs between two moments; None if they left enough cores.

    If a quota gives this process fewer cores than there are, others may use the rest.
    """
    if before is None or after is None or not after.cores:
        return None
    busy_seconds = after.busy_seconds - before.busy_seconds
    own_seconds = after.own_seconds - before.own_seconds
    seconds = max(after.at_seconds - before.at_seconds, 1e-9)
    others, cores = max(0.0, busy_seconds - own_seconds) / seconds, after.cores
    if cores - others >= min(usable_cores(), cores) * (1 - _MOST_OTHERS):
        return None
    return (
        f"other programs kept {others:.1f} of {cores} cores busy meanwhile: what was measured"
        " may be slower than at rest"
    )
