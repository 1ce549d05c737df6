"""Figures, tables, plots and files that experiments make of measurements; a staircase is fitted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.environment import ROOT
from tests.lab.reports import HARDWARE, list_reports, multiply_squares
from tests.processes import expect_output
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.lab.experiments import mulmat
from wavetrim.lab.experiments.reference import TABLE_10, TILE_WIDTHS
from wavetrim.lab.probes import waves
from wavetrim.lab.probes.staircase import fit_staircase
from wavetrim.lab.reports.bench import Bench
from wavetrim.lab.reports.report import write_report
from wavetrim.scheduler.problem import GemmProblem

PAGE = ROOT / "docs" / "teaching.md"


def read_tables(text):
    """Every Markdown table as rows of cells, without its rule."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)
    rows = [[line.strip("| ").split(" | ") for line in block.splitlines()] for block in blocks]
    return [[head, *body] for head, _, *body in rows]


def test_the_page_calls_every_experiment():
    called = re.findall(r"^wavetrim reproduce ([a-z-]+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert called == [report.name for report in list_reports()]


@given(*(st.integers(1, 10_000) for _ in range(3)), st.sampled_from(TILE_WIDTHS))
def test_the_grid_covers_the_product_and_no_block_lies_outside(m, n, k, w):
    grid = mulmat.count_blocks(GemmProblem(m, n, k), w)
    for blocks, size in ((grid.s, m), (grid.t, n), (grid.r, k)):
        assert (blocks - 1) * w < size <= blocks * w


def test_mulmatcua_shows_its_times_beside_table_10():
    report = multiply_squares()
    titles = [table.title for table in report.tables]
    assert [title.partition(":")[0] for title in titles[:7]] == [
        f"Table {number}" for number in range(10, 17)
    ]
    assert report.tables[0].rows[:2] == (
        ("512", "here", "1.804", "0.4925", "0.4105", "0.4520"),
        ("512", "reference", "3.609", "0.9850", "0.8210", "0.9040"),
    )
    assert report.tables[4].rows[2] == ("16", "5.74", "5.74")  # 1.956845 / 0.341130 s
    assert report.tables[5].rows[7][:3] == ("4096", "reference", "542.21")
    assert report.tables[6].rows[7][:3] == ("4096", "reference", "0.94")  # 512 / 542.21
    assert [row["reference_seconds"] for row in report.rows] == list(TABLE_10.values())


@pytest.mark.parametrize("report", list_reports(), ids=lambda report: report.name)
def test_written_reports_are_complete(report, tmp_path):
    files = write_report(report, tmp_path / "new" / "folder")
    assert {file.suffix for file in files} == {".md", ".csv", ".png"}
    assert sorted(files) == sorted((tmp_path / "new" / "folder").iterdir())
    for file in files:
        if file.suffix == ".png":
            assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    text = files[0].read_text(encoding="utf-8")
    assert str(HARDWARE) in text
    for name in re.findall(r"\]\((.*?\.png)\)", text):
        assert (files[0].parent / name) in files
    tables = [[list(table.head), *map(list, table.rows)] for table in report.tables]
    stripped = [[[cell.strip() for cell in row] for row in table] for table in read_tables(text)]
    assert len(stripped) == len(tables)
    assert all(row for table in stripped for row in table)


def test_matplotlib_is_imported_only_to_draw():
    program = (
        "import sys, wavetrim.service.cli.main, wavetrim.lab.reports.report, "
        "wavetrim.lab.experiments.hybrid_f; "
        "print('matplotlib' in sys.modules)"
    )
    expect_output(program, prints="False\n")


@given(blocks=st.integers(1, 12), launch=st.floats(0, 1e-4), wave=st.floats(1e-5, 1e-2))
def test_an_exact_staircase_is_found_again(blocks, launch, wave):
    seconds = [launch + -(-r // blocks) * wave for r in range(1, 33)]
    fit = fit_staircase(range(1, 33), seconds, most_blocks=16)
    assert fit.blocks == blocks
    assert abs(fit.wave_seconds - wave) <= 1e-6 * wave
    assert abs(fit.launch_seconds - launch) <= 1e-6 * (launch + wave)


@pytest.mark.gpu
def test_a_staircase_is_measured_and_fitted(kernel_cache):
    bench = Bench(device=list_devices()[0], cache_dir=kernel_cache, cpu_threads=1)
    report = waves.run_probe(bench, [find_kernel("shared", "float32")])
    assert len(report.plots) == 1
    times = [row["seconds"] for row in report.rows]
    assert len(times) > 8
    assert 0 < times[0] < times[-1]
    assert all(row["slots"] % bench.device.sm_count == 0 for row in report.rows)
    last = report.rows[-1]
    assert last["model_seconds"] == pytest.approx(last["seconds"], rel=0.5)
