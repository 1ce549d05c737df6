"""How many cores other programs use during a measurement, by the system's counters.

A constant load slows all runs alike, so they do not differ and do not show it. It shows in the
counters of the cores: what they did, less what this process did. Time that a host takes from its
guest counts as that of others.
"""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavetrim.cpu.threads import usable_cores

MOST_OTHERS: Final = 0.05
"""Share of the cores that others may use without a remark; chosen."""

_IDLE_FIELDS: Final = (3, 4)
_GUEST_FIELDS: Final = slice(8, None)  # counted as user time already


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

    def count_others(self, before: "CoreTimes") -> float:
        """Cores that others kept busy since `before`, on average."""
        busy = self.busy_seconds - before.busy_seconds
        own = self.own_seconds - before.own_seconds
        return max(0.0, busy - own) / max(self.at_seconds - before.at_seconds, 1e-9)


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
    others, cores = after.count_others(before), after.cores
    if cores - others >= min(usable_cores(), cores) * (1 - MOST_OTHERS):
        return None
    return (
        f"other programs kept {others:.1f} of {cores} cores busy meanwhile: what was measured"
        " may be slower than at rest"
    )
