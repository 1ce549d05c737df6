"""Which CPU this is."""

import platform
from pathlib import Path


def find_cpu_name() -> str:
    """The model as the kernel names it, or the machine's architecture where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
