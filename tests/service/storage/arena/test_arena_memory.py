"""How much memory may be taken, on real trees of control-group files."""

from pathlib import Path

import pytest

from wavetrim.service.storage.arena.memory_limit import default_limit, read_memory_left

MIB = 2**20
GIB = 2**30


def build_tree(root: Path, files: dict[str, str], *, available: int = 100 * GIB) -> Path:
    meminfo = f"MemTotal: {128 * GIB // 1024} kB\nMemAvailable: {available // 1024} kB\n"
    for name, text in {"proc/meminfo": meminfo, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def build_v2(root: Path, limit: int, used: int, stat: str = "", *, high: str = "max\n") -> Path:
    group = "sys/fs/cgroup/a"
    return build_tree(
        root,
        {
            "proc/self/cgroup": "0::/a\n",
            f"{group}/memory.max": f"{limit}\n",
            f"{group}/memory.high": high,
            f"{group}/memory.current": f"{used}\n",
            f"{group}/memory.stat": stat,
        },
    )


def test_without_groups_the_machine_counts_and_a_reserve_is_left(tmp_path: Path) -> None:
    root = build_tree(tmp_path, {})
    assert read_memory_left(root) == 99 * GIB
    assert default_limit(root) == 16 * GIB


def test_where_the_system_tells_nothing_nothing_is_taken(tmp_path: Path) -> None:
    assert read_memory_left(tmp_path) == 0
    assert default_limit(tmp_path) == 0


def test_a_quarter_of_what_the_group_allows_is_the_default(tmp_path: Path) -> None:
    assert default_limit(build_v2(tmp_path, 6 * GIB, GIB)) == 6 * GIB // 4


@pytest.mark.parametrize(
    ("limit", "reserve"), [(256 * MIB, 64 * MIB), (2 * GIB, 256 * MIB), (64 * GIB, GIB)]
)
def test_the_reserve_is_an_eighth_within_bounds(tmp_path: Path, limit: int, reserve: int) -> None:
    assert read_memory_left(build_v2(tmp_path, limit, 100)) == limit - 100 - reserve


def test_clean_cache_that_nobody_read_lately_is_not_used_memory(tmp_path: Path) -> None:
    stat = f"anon 5\ninactive_file {700 * MIB}\nfile_dirty {200 * MIB}\nfile_writeback {MIB}\n"
    root = build_v2(tmp_path, 2 * GIB, 2 * GIB, stat)
    assert read_memory_left(root) == (700 - 201 - 256) * MIB


def test_where_a_group_is_slowed_down_counts_as_its_limit(tmp_path: Path) -> None:
    root = build_v2(tmp_path, 8 * GIB, GIB, high=f"{4 * GIB}\n")
    assert read_memory_left(root) == 4 * GIB - GIB - GIB // 2
    assert default_limit(root) == GIB


def test_each_group_above_counts(tmp_path: Path) -> None:
    root = build_tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slice/service\n",
            "sys/fs/cgroup/slice/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/slice/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/slice/service/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/slice/service/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/other/memory.max": "1\n",
            "sys/fs/cgroup/other/memory.current": "1\n",
        },
    )
    assert read_memory_left(root) == GIB // 2
    assert default_limit(root) == GIB


def test_version_1_counts_group_parent_and_what_the_statistics_say(tmp_path: Path) -> None:
    memory = "sys/fs/cgroup/memory"
    root = build_tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/x\n3:cpu:/docker/x\n0::/ignored\n",
            f"{memory}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{memory}/memory.usage_in_bytes": f"{50 * GIB}\n",
            f"{memory}/docker/x/memory.limit_in_bytes": f"{16 * GIB}\n",
            f"{memory}/docker/x/memory.usage_in_bytes": f"{2 * GIB}\n",
            f"{memory}/docker/x/memory.stat": f"hierarchical_memory_limit {8 * GIB}\n"
            f"total_inactive_file {GIB}\ntotal_dirty {MIB}\ntotal_writeback {MIB}\n",
        },
    )
    assert read_memory_left(root) == 8 * GIB - 2 * GIB + GIB - 2 * MIB - GIB
    assert default_limit(root) == 2 * GIB


def test_little_available_memory_bounds_a_generous_group(tmp_path: Path) -> None:
    root = build_v2(tmp_path, 64 * GIB, GIB)
    build_tree(root, {}, available=3 * GIB)
    assert read_memory_left(root) == 2 * GIB
