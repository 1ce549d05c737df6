"""Memory nodes (NUMA): each GPU is next to the cores and the memory of one node."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_DEVICES: Final = Path("/sys/bus/pci/devices")


@contextlib.contextmanager
def stay_beside(cores: frozenset[int]) -> Iterator[None]:
    """Bind the calling thread to these cores in the block, so that it allocates on their node.

    Args:
        cores: The cores. If the thread may use none of them, nothing changes.
    """
    before = os.sched_getaffinity(0)
    wanted = before & cores
    if not wanted or wanted == before:
        yield
        return
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def find_cores(bus_id: str, folder: Path = _DEVICES) -> frozenset[int]:
    """The cores next to a device; empty if the machine has one node, or does not tell.

    Args:
        bus_id: The device's address on the PCI bus, such as "0000:3B:00.0".
        folder: The system's folder of such devices.
    """
    device = folder / bus_id.lower()
    try:
        if int((device / "numa_node").read_text(encoding="ascii")) < 0:
            return frozenset()
        return _read_list((device / "local_cpulist").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return frozenset()


def _read_list(text: str) -> frozenset[int]:
    """The numbers of a list such as "0-3,8"."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)
