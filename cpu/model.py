"""The name and the largest cache of this machine's CPU."""

import platform
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20}


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


@cache
def find_largest_cache_bytes() -> int:
    """Size of the largest cache of the first core, which others share; 0 if it is not told."""
    sizes = [0]
    for file in _CACHES.glob("index*/size"):
        with suppress(OSError, ValueError, KeyError):
            text = file.read_text(encoding="ascii").strip()
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(sizes)
