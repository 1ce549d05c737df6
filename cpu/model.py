"""The name and the caches of this machine's CPU."""

import platform
from functools import cache
from pathlib import Path
from typing import Final

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_OWN_LEVELS: Final = 2  # on x86 and most ARM servers; cores share the third
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


def find_core_cache_bytes() -> int:
    """Size of the largest cache of a core's own; 0 if the kernel does not tell."""
    own = [size for level, size in _list_caches() if level <= _OWN_LEVELS]
    return max(own, default=0)


@cache
def find_largest_cache_bytes() -> int:
    """Size of the largest cache, which cores share; 0 if the kernel does not tell."""
    return max((size for _, size in _list_caches()), default=0)


def _list_caches() -> list[tuple[int, int]]:
    """Level and bytes of each cache of the first core, without those of instructions."""
    found = []
    for folder in sorted(_CACHES.glob("index*")):
        try:
            kind, size, level = (
                (folder / name).read_text(encoding="ascii").strip()
                for name in ("type", "size", "level")
            )
            if kind != "Instruction":
                found.append((int(level), int(size[:-1]) * _UNITS[size[-1]]))
        except (OSError, ValueError, KeyError):
            continue
    return found
