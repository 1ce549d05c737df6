"""The name of this machine's CPU."""

import platform
from pathlib import Path


def find_cpu_name() -> str:
    """The model name in /proc/cpuinfo, else the machine's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
