"""The contest on a busy machine: conditions, refusals, judgement, and one small run of it."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.common.results import ResultsError
from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.busy.conditions import CONDITIONS, CannotMake, burn_cores, make_half_group
from benchmarks.host.busy.products import NAMED, draw_timely
from benchmarks.host.busy.rounds import list_baselines
from benchmarks.host.busy.rows import (
    ON_CPU,
    ConditionRow,
    compare_with_numpy,
    compare_with_peers,
    merge_runs,
    read_busy_file,
)
from benchmarks.host.busy.tables import HEAD, NOT_MEASURED, fill_busy
from tests.environment import ROOT, clear_environment
from tests.limit import allow
from tests.processes import is_gone, list_children, wait_until

ROW = ConditionRow(
    *(1000, 1000, 1000, "float32", "pageable", "busy", "numpy"), seconds=0.1, runs=[0.1], turns=9
)
OURS_ROW = replace(ROW, baseline=OURS, f=0)


def run_contest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.host.busy", "--out", folder, *arguments],
        cwd=ROOT,
        env={**clear_environment(), "WAVETRIM_KERNEL_CACHE_DIR": str(folder / "kernels")},
        capture_output=True,
        text=True,
        timeout=allow(120),
        check=False,
    )


def read_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_busy_processes_compute_until_the_block_ends_in_whatever_way() -> None:
    class Interrupted(BaseException):
        pass

    pids: list[int] = []

    def burn() -> None:
        with burn_cores(2) as found:
            pids.extend(found)
            wait_until(lambda: all(read_cpu_seconds(pid) > 0.2 for pid in pids))
            raise Interrupted

    with pytest.raises(Interrupted):
        burn()
    assert len(pids) == 2
    assert all(map(is_gone, pids))


def test_busy_processes_end_with_a_process_that_is_killed() -> None:
    program = (
        "import time\n"
        "from benchmarks.host.busy.conditions import burn_cores\n"
        "with burn_cores(2):\n"
        "    print(flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pids = list_children(process.pid)
        process.kill()
    assert len(pids) == 2
    wait_until(lambda: all(map(is_gone, pids)))


@pytest.mark.needs("time-group")
def test_half_is_half_the_cores_time_from_the_start_of_a_process() -> None:
    program = (
        "from pathlib import Path; from wavetrim.cpu.threads import read_cpu_quotas;"
        "print(min(read_cpu_quotas(Path('/'))))"
    )
    try:
        with make_half_group(2) as prefix:
            found = subprocess.run(
                [*prefix, sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True
            )
            groups = list(Path("/sys/fs/cgroup").rglob(f"wavetrim-bench-{os.getpid()}"))
    except CannotMake as error:
        pytest.skip(str(error))
    assert float(found.stdout) == 1
    assert len(groups) == 1
    assert not groups[0].exists()


def test_the_random_products_are_those_of_the_seed_and_not_too_long() -> None:
    few = draw_timely("2031-01-02", 16, cores=2, has_gpu=False)
    assert len(set(few)) == 16
    assert few == draw_timely("2031-01-02", 20, cores=2, has_gpu=False)[:16]
    assert {one.dtype for one in few} == {"float32", "float64"}
    assert few != draw_timely("2031-01-03", 16, cores=2, has_gpu=False)
    largest = max(
        draw_timely("2031-01-02", 200, cores=16, has_gpu=True), key=lambda x: x.size_bytes
    )
    assert largest.size_bytes <= 60e-3 * 1e10
    assert len(NAMED) == 5


def test_several_runs_are_one_row_with_the_median_of_their_medians() -> None:
    runs = [replace(ROW, seconds=x, runs=[x]) for x in (0.3, 0.1, 0.2)]
    other = replace(ROW, condition="half")
    assert merge_runs([*runs[:2], other, runs[2]]) == [
        replace(ROW, seconds=0.2, runs=[0.3, 0.1, 0.2], turns=27),
        other,
    ]


def test_the_fastest_peer_in_the_same_condition_is_what_counts() -> None:
    rows = [
        ROW,
        replace(ROW, baseline="cupy", seconds=0.2),
        replace(ROW, baseline="torch", seconds=0.05),
        replace(ROW, baseline="torch", condition="quiet", seconds=0.01),
    ]
    for seconds, is_lost in ((0.0550, False), (0.0552, True)):  # 1.10 times and 0.1 ms
        (one,) = compare_with_peers([*rows, replace(OURS_ROW, seconds=seconds)], has_gpu=True)
        assert one.other.baseline == "torch"
        assert one.is_lost is is_lost
        assert one.ratio == pytest.approx(seconds / 0.05)


@pytest.mark.parametrize(("size", "ratio"), [(1000, 1.3), (1100, 1.1)])
def test_small_page_locked_products_are_held_to_less(size: int, ratio: float) -> None:
    pinned = replace(OURS_ROW, m=size, n=size, k=size, memory="pinned")
    peers = [replace(pinned, baseline=name) for name in ("cupy", "torch")]
    numpy = replace(pinned, baseline="numpy", memory="pageable", seconds=0.01)
    (one,) = compare_with_peers([pinned, *peers, numpy], has_gpu=True)
    assert one.other == numpy
    assert one.most_seconds == pytest.approx(ratio * 0.01 + 1e-4)


def test_f_equal_to_m_is_held_to_numpy() -> None:
    on_cpu = replace(ROW, baseline=ON_CPU, f=1000, seconds=0.13)
    (one,) = compare_with_numpy([ROW, OURS_ROW, on_cpu])
    assert (one.ours, one.is_lost) == (on_cpu, True)
    (one,) = compare_with_numpy([ROW, replace(OURS_ROW, f=1000, seconds=0.119)])
    assert (one.ours.baseline, one.is_lost) == (OURS, False)
    assert compare_with_numpy([ROW, OURS_ROW]) == []  # the GPU computes


@pytest.mark.parametrize("missing", ["numpy", "cupy", "torch"])
def test_without_a_peer_nothing_is_judged(missing: str) -> None:
    rows = [OURS_ROW, *(replace(ROW, baseline=name) for name in ("numpy", "cupy", "torch"))]
    with pytest.raises(ValueError, match=r"1000³ float32 pageable busy is not judged: numpy, cupy"):
        compare_with_peers([row for row in rows if row.baseline != missing], has_gpu=True)


@pytest.mark.skipif("cupy" in sys.modules, reason="CuPy is here")
def test_beside_a_gpu_nothing_is_measured_without_cupy() -> None:
    with pytest.raises(ImportError):
        list_baselines(has_gpu=True)


def test_a_run_writes_its_rows_and_its_table(tmp_path: Path) -> None:
    sizes, rounds = ("300x200x100", "64x500x90"), ("--rounds", "2", "--runs", "2")
    ended = run_contest(tmp_path, "--shapes", *sizes, *rounds, "--conditions", "half,quiet,busy")
    assert ended.returncode in (0, 1), ended.stderr
    assert (ended.returncode == 1) == ("slower: " in ended.stderr)
    assert "wrong" not in ended.stderr
    (file,) = tmp_path.glob("busy-*.json")
    results = read_busy_file(file)
    made = results.document["conditions"]
    assert list(made) == ["quiet", "busy", "half"]
    assert made["quiet"] == made["busy"] == "made"
    assert made["half"] == "made" or made["half"].startswith("cannot be made: ")
    measured = [condition for condition in made if made[condition] == "made"]
    for condition in measured:
        rows = [row for row in results.rows if row.condition == condition]
        pageable = [row for row in rows if row.memory == "pageable" and row.baseline == "numpy"]
        assert [row.shape for row in pageable] == [(300, 200, 100), (64, 500, 90)]
        assert all(row.f is not None for row in rows if row.baseline == OURS)
        assert all(len(row.runs) <= 2 <= row.turns <= 4 and row.seconds > 0 for row in rows)
    table = fill_busy("<!-- host-busy -->\n<!-- /host-busy -->", tmp_path)
    assert results.caption in table
    assert [line.split(" | ")[0] for line in table.splitlines()[5:-1]] == [
        f"| {condition}" for condition in made
    ]


def test_a_page_says_what_was_not_measured(tmp_path: Path) -> None:
    page = "<!-- host-busy -->\n<!-- /host-busy -->"
    assert NOT_MEASURED in fill_busy(page, tmp_path)
    file = tmp_path / "busy-abacus.json"
    document = {
        "hardware": {"gpu": None, "cpu": "Beads", "cores": 2},
        "versions": {"numpy": "5.6"},
        "commit": "abc",
        "conditions": {"busy": "made", "half": "cannot be made: no group"},
        "rows": [],
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ResultsError, match="it has no rows; `make bench-host CONDITION=all`"):
        fill_busy(page, tmp_path)
    rows = [asdict(row) for row in (ROW, OURS_ROW)]
    file.write_text(json.dumps(document | {"rows": rows}), encoding="utf-8")
    filled = fill_busy(page, tmp_path)
    assert "2 cores of Beads, no GPU; NumPy 5.6; commit abc:" in filled
    assert "| busy | 1 | 1.00 | 1.00 | 0 |" in filled
    assert f"| half | cannot be made |{'  |' * (len(HEAD) - 2)}" in filled


def test_an_unknown_condition_is_refused(tmp_path: Path) -> None:
    ended = run_contest(tmp_path, "--conditions", "quiet,noisy")
    assert ended.returncode == 2
    assert f"it is noisy; must be of {', '.join(CONDITIONS)}" in ended.stderr
    assert list(tmp_path.iterdir()) == []
