"""How much memory may be taken, on real trees of control-group files."""

import pytest

from tests.groups import write_groups
from wavetrim.service.storage.memory.memory_limit import default_limit, read_memory_left

MIB = 2**20
GIB = 2**30


def build_tree(root, files, *, available=100 * GIB):
    meminfo = f"MemTotal: {128 * GIB // 1024} kB\nMemAvailable: {available // 1024} kB\n"
    return write_groups(root, {"proc/meminfo": meminfo, **files})


def describe_v2(limit, used, stat="", *, high="max\n"):
    """The files of a group of version 2."""
    group = "sys/fs/cgroup/a"
    return {
        "proc/self/cgroup": "0::/a\n",
        f"{group}/memory.max": f"{limit}\n",
        f"{group}/memory.high": high,
        f"{group}/memory.current": f"{used}\n",
        f"{group}/memory.stat": stat,
    }


def test_where_the_system_tells_nothing_nothing_is_taken(tmp_path):
    assert read_memory_left(tmp_path) == default_limit(tmp_path) == 0


def test_little_available_memory_bounds_a_generous_group(tmp_path):
    root = build_tree(tmp_path, describe_v2(64 * GIB, GIB), available=3 * GIB)
    assert read_memory_left(root) == 2 * GIB


V1 = "sys/fs/cgroup/memory"
GROUPS = {
    # The reserve is an eighth of the limit, from 64 MiB to 1 GiB; the default a quarter.
    "the machine alone": ({}, 99 * GIB, 32 * GIB),
    "the least reserve": (describe_v2(256 * MIB, 100), 192 * MIB - 100, 64 * MIB),
    "an eighth": (describe_v2(2 * GIB, 100), 2 * GIB - 256 * MIB - 100, GIB // 2),
    "the largest reserve": (describe_v2(64 * GIB, 100), 63 * GIB - 100, 16 * GIB),
    "clean cache that nobody read lately is not used": (
        describe_v2(
            2 * GIB, 2 * GIB,
            f"anon 5\ninactive_file {700 * MIB}\nfile_dirty {200 * MIB}\nfile_writeback {MIB}\n",
        ), (700 - 201 - 256) * MIB, GIB // 2,
    ),
    "where it is slowed down is its limit": (
        describe_v2(8 * GIB, GIB, high=f"{4 * GIB}\n"), 4 * GIB - GIB - GIB // 2, GIB,
    ),
    "each group above, and no other": (
        {
            "proc/self/cgroup": "0::/slice/service\n",
            "sys/fs/cgroup/slice/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/slice/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/slice/service/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/slice/service/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/other/memory.max": "1\n",
            "sys/fs/cgroup/other/memory.current": "1\n",
        }, GIB // 2, GIB,
    ),
    "version 1: group, parent, and what the statistics say": (
        {
            "proc/self/cgroup": "4:memory:/docker/x\n3:cpu:/docker/x\n0::/ignored\n",
            f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{V1}/memory.usage_in_bytes": f"{50 * GIB}\n",
            f"{V1}/docker/x/memory.limit_in_bytes": f"{16 * GIB}\n",
            f"{V1}/docker/x/memory.usage_in_bytes": f"{2 * GIB}\n",
            f"{V1}/docker/x/memory.stat": f"hierarchical_memory_limit {8 * GIB}\n"
            f"total_inactive_file {GIB}\ntotal_dirty {MIB}\ntotal_writeback {MIB}\n",
        }, 8 * GIB - 2 * GIB + GIB - 2 * MIB - GIB, 2 * GIB,
    ),
}  # fmt: skip
"""Files of control groups, the bytes that may be taken, and the arena's limit by default."""


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_above_counts(tmp_path, group):
    files, left, limit = GROUPS[group]
    root = build_tree(tmp_path, files)
    assert (read_memory_left(root), default_limit(root)) == (left, limit)
