"""The contest of products in host memory: what is compared with what, and one small run of it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import draw_operands, pin_operands, poison
from benchmarks.common.shapes import DTYPES
from benchmarks.host.baselines.lineup import OURS, list_baselines
from benchmarks.host.baselines.streamed_cupy import choose_panel_rows, cut_panels
from benchmarks.host.conditions import CONDITIONS
from benchmarks.host.limit import Limit
from benchmarks.host.products import draw_timely
from benchmarks.host.results import HostRow, list_contests, merge_runs, read_contests
from benchmarks.host.tables import NOT_MEASURED, fill_page
from tests.environment import ROOT, clear_environment
from tests.limit import allow
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.problem import MEMORIES

ROW = HostRow(
    *(1000, 1000, 1000, "float32", "pageable", "numpy"),
    seconds=0.1, turns=9, condition="busy", runs=[0.1],
)  # fmt: skip


def run_contest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.host", "--out", folder, *arguments],
        cwd=ROOT,
        env={**clear_environment(), "WAVETRIM_KERNEL_CACHE_DIR": str(folder / "kernels")},
        capture_output=True,
        text=True,
        timeout=allow(120),
        check=False,
    )


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


def test_several_runs_are_one_row_with_the_median_of_their_medians() -> None:
    runs = [replace(ROW, seconds=x, runs=[x]) for x in (0.3, 0.1, 0.2)]
    other = replace(ROW, condition="half")
    assert merge_runs([replace(runs[0], limit_seconds=0.05), *runs[1:2], other, runs[2]]) == [
        replace(ROW, seconds=0.2, runs=[0.3, 0.1, 0.2], turns=27, limit_seconds=0.05),
        other,
    ]


def test_the_fastest_other_in_the_same_condition_is_what_counts() -> None:
    pinned = replace(ROW, memory="pinned")
    rows = [
        *(
            ROW,
            replace(ROW, baseline=OURS, seconds=0.3),
            replace(ROW, baseline="cupy", seconds=0.2),
        ),
        *(replace(pinned, baseline=OURS, seconds=0.04), replace(pinned, baseline="torch")),
        replace(ROW, baseline="numpy", condition="quiet", seconds=0.01),
    ]
    pageable, locked = list_contests(rows)
    assert (pageable.fastest.baseline, pageable.ratio) == ("numpy", pytest.approx(3))
    assert (locked.ratio, locked.rows["numpy"]) == (pytest.approx(0.4), ROW)


@pytest.mark.parametrize("m", [1, 255, 256, 333, 4096, 4097, 65536, 100_003])
def test_panels_are_whole_tiles_and_cover_all_rows(m: int) -> None:
    rows = choose_panel_rows(m)
    panels = list(cut_panels(m, rows))
    assert rows == m or rows % 256 == 0
    assert 1 <= len(panels) <= 16
    assert sum(panel.stop - panel.start for panel in panels) == m


@pytest.mark.skipif("cupy" in sys.modules, reason="CuPy is here")
def test_beside_a_gpu_nothing_is_measured_without_cupy() -> None:
    for gpus in (1, 2):
        with pytest.raises(ImportError):
            list_baselines(gpus)


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_baselines_compute_the_product(dtype: str, memory: str, gpus: int) -> None:
    if gpus > len(list_devices()):
        pytest.skip("this machine has one GPU")
    if gpus == 1:
        pytest.importorskip("torch")
    drawn = draw_operands((1531, 919, 1201), dtype)
    operands = pin_operands(drawn) if memory == "pinned" else drawn
    check = FreivaldsCheck(drawn)
    for baseline in list_baselines(gpus):
        for _ in range(2):  # buffers come from pools the second time
            poison(operands.c)
            baseline.multiply(operands)
            assert check.find_error(operands.c) <= 1, baseline.name


@pytest.mark.gpu
def test_the_gpu_alone_has_a_least_time() -> None:
    assert 0 < Limit(1).find_seconds(draw_operands((512, 512, 512), "float64")) < 1


def test_a_run_writes_its_rows_and_its_table(tmp_path: Path) -> None:
    sizes, rounds = ("300x200x100", "64x500x90"), ("--rounds", "2", "--runs", "2")
    ended = run_contest(tmp_path, "--shapes", *sizes, *rounds, "--conditions", "half,quiet,busy")
    assert ended.returncode == 0, ended.stderr
    (results,) = read_contests(tmp_path)
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
    page = "".join(f"<!-- {x} -->\n<!-- /{x} -->\n" for x in ("host-times", "host-regret"))
    filled = fill_page(page, [results], [results])
    assert filled.count(NOT_MEASURED) == 1, "there were no sweeps"
    assert [line.split(" | ")[1:4] for line in filled.splitlines() if " cores (" in line] == [
        [condition, "pageable", "2"] for condition in measured
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--conditions", "quiet,noisy"), f"it is noisy; must be of {', '.join(CONDITIONS)}"),
        (("--gpus", "99"), "it is 99; must be 1 to "),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    ended = run_contest(tmp_path, *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(list_devices() != (), reason="a GPU is here")
def test_without_a_gpu_there_is_no_f_to_sweep(tmp_path: Path) -> None:
    ended = run_contest(tmp_path, "--parts", "sweep")
    assert (ended.returncode, ended.stderr) == (1, "there is no GPU, so there is no F to sweep\n")
