"""How much memory this process may take: what the machine has, and what control groups allow.

A process that touches a page past a control group's limit is killed, even if the machine has memory
left. A limit holds for a group and all groups in it, so each group above this process counts. The
use of a group includes cached files; clean ones that were not read lately do not count here, since
the kernel takes them back at once.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from wavetrim.cpu.threads import list_ancestors, parse_membership

_V1_MOUNT: Final = "sys/fs/cgroup/memory"
_V2_MOUNTS: Final = ("sys/fs/cgroup", "sys/fs/cgroup/unified")

_SHARE: Final = 4
"""By default the arena may take this part of the memory, a quarter; chosen."""

_LEAST_RESERVE_BYTES: Final = 64 * 2**20
_MOST_RESERVE_BYTES: Final = 2**30


class _Level(NamedTuple):
    """The most memory that the machine or a control group may use, and what it may still take."""

    limit_bytes: int
    left_bytes: int


def count_memory(root: Path = Path("/")) -> int | None:
    """Memory that the machine has and control groups allow; None if the system does not tell."""
    return min((level.limit_bytes for level in _read_levels(root)), default=None)


def default_limit(root: Path = Path("/")) -> int:
    """The default size of an arena: a quarter of the memory.

    Args:
        root: Where proc/ and sys/ are found.
    """
    return (count_memory(root) or 0) // _SHARE


def read_memory_left(root: Path = Path("/")) -> int:
    """Memory that may still be taken, in bytes; 0 if the system does not tell.

    At each level an eighth of its limit, from 64 MiB to 1 GiB, is reserved: for the engine, buffers
    of connections, and other processes.
    """
    left_bytes = [
        one.left_bytes - min(_MOST_RESERVE_BYTES, max(_LEAST_RESERVE_BYTES, one.limit_bytes // 8))
        for one in _read_levels(root)
    ]
    return max(0, min(left_bytes, default=0))


def _read_levels(root: Path) -> list[_Level]:
    """The machine and every control group around this process that has a limit, version 1 and 2."""
    levels = list(_read_machine(root / "proc/meminfo"))
    try:
        membership = (root / "proc/self/cgroup").read_text()
    except OSError:
        return levels
    for hierarchy, controllers, group in parse_membership(membership):
        if hierarchy == 0:
            for mount in _V2_MOUNTS:
                for folder in list_ancestors(root / mount, group):
                    levels.extend(_read_v2_group(folder))
        elif "memory" in controllers:
            for folder in list_ancestors(root / _V1_MOUNT, group):
                levels.extend(_read_v1_group(folder))
    return levels


def _read_machine(meminfo: Path) -> Iterator[_Level]:
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    except OSError:
        return
    total, available = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    yield _Level(total, available)


def _read_v2_group(folder: Path) -> Iterator[_Level]:
    """A group's lower limit: at memory.max it is killed, at memory.high slowed to a crawl."""
    texts = _read(folder / "memory.max"), _read(folder / "memory.high")
    limits = [int(text) for text in texts if text not in {"", "max"}]
    if limits and (used := _read(folder / "memory.current")):
        stat = _parse_stat(_read(folder / "memory.stat"))
        yield _Level(min(limits), min(limits) - int(used) + _find_idle_cache(stat, "", "file_"))


def _read_v1_group(folder: Path) -> Iterator[_Level]:
    """A group's limit; its statistics name limits above it, which a container may not see."""
    text, used = _read(folder / "memory.limit_in_bytes"), _read(folder / "memory.usage_in_bytes")
    if text and used:
        stat = _parse_stat(_read(folder / "memory.stat"))
        limit = min(int(text), stat.get("hierarchical_memory_limit", int(text)))
        yield _Level(limit, limit - int(used) + _find_idle_cache(stat, "total_", "total_"))


def _find_idle_cache(stat: dict[str, int], idle_prefix: str, dirty_prefix: str) -> int:
    """Bytes of cached files that the kernel takes back at once: clean, and not read lately."""
    dirty = stat.get(f"{dirty_prefix}dirty", 0) + stat.get(f"{dirty_prefix}writeback", 0)
    return max(0, stat.get(f"{idle_prefix}inactive_file", 0) - dirty)


def _parse_stat(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
