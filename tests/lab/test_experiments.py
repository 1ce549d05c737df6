"""Figures, tables, plots and files that experiments make of measurements, without a GPU."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.environment import ROOT
from tests.lab.reports import (
    HARDWARE,
    add_product,
    check_product,
    compare_kernels,
    list_reports,
    measure,
    multiply_squares,
    split_rows,
)
from tests.processes import run_python
from tests.scheduler.profiles import find_preset_profile
from wavetrim.kernels.errors import DeviceUnavailable
from wavetrim.lab.experiments import (
    compara_kernels,
    hybrid_f,
    matmatgpu,
    mulmat,
    mulmatcua,
    sdk_multiply,
)
from wavetrim.lab.experiments.operands import draw_matrix, draw_operands, pad_matrix
from wavetrim.lab.experiments.reference import SQUARE_SIZES, TABLE_10, TILE_WIDTHS
from wavetrim.lab.reports.bench import pick_device
from wavetrim.lab.reports.plot import Plot
from wavetrim.lab.reports.report import Report, format_report, write_report
from wavetrim.lab.reports.table import (
    Table,
    format_csv,
    format_gflops,
    format_markdown,
    format_milliseconds,
)
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem

PAGE = ROOT / "docs" / "teaching.md"


def read_tables(text: str) -> list[list[list[str]]]:
    """Every Markdown table as rows of cells, without its rule."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)
    rows = [[line.strip("| ").split(" | ") for line in block.splitlines()] for block in blocks]
    return [[head, *body] for head, _, *body in rows]


def test_the_page_calls_every_experiment() -> None:
    called = re.findall(r"^wavetrim reproduce ([a-z-]+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert called == [report.name for report in list_reports()]


def test_the_reference_has_a_time_for_each_size_and_width() -> None:
    assert set(TABLE_10) == {(n, w) for n in SQUARE_SIZES for w in TILE_WIDTHS}


@given(*(st.integers(1, 10_000) for _ in range(3)), st.sampled_from(TILE_WIDTHS))
def test_the_grid_covers_the_product_and_no_block_lies_outside(
    m: int, n: int, k: int, w: int
) -> None:
    grid = mulmat.count_blocks(GemmProblem(m, n, k), w)
    for blocks, size in ((grid.s, m), (grid.t, n), (grid.r, k)):
        assert (blocks - 1) * w < size <= blocks * w


def test_mulmat_reports_its_grid_and_time() -> None:
    report = mulmat.make_report(measure("shared", 32, 224, 256, 192, 5e-6), HARDWARE)
    assert report.findings[0] == "S=7, T=8, R=6."
    (cells,) = report.tables[0].rows
    assert cells[4:8] == ("7", "8", "6", "0.005000")


def test_compara_kernels_has_the_nine_tables_of_the_reference() -> None:
    report = compare_kernels()
    numbers = [re.match(r"Table (\d+): ", table.title) for table in report.tables]
    assert [match and int(match[1]) for match in numbers] == list(range(1, 10))
    assert report.tables[0].rows[0] == ("4", "0.0001280", "0.0002560", "0.0003840")
    assert all(row[1:] == ("1.00", "0.50", "0.33") for row in report.tables[4].rows)
    n, w, simple, *_ = report.tables[8].rows[-1]
    assert (n, w) == ("4096", "32")
    assert float(simple) == pytest.approx(2 * 4096 * 4096 * 32 / (1e-9 * 4096 / 32) / 1e9, rel=1e-3)


def test_tables_of_other_sizes_have_no_number() -> None:
    measured = [measure(kernel, 4, 100, 100, 4, 1e-6) for kernel in compara_kernels.KERNELS]
    report = compara_kernels.make_report(measured, HARDWARE)
    assert report.tables[0].title == "times at N = 100, ms"


def test_mulmatcua_shows_its_times_beside_table_10() -> None:
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


def test_a_size_without_a_reference_has_one_row() -> None:
    report = mulmatcua.make_report([measure("shared", 4, 64, 64, 64, 1e-6)], HARDWARE)
    assert report.tables[0].rows == (("64", "here", "0.001000"),)


def test_hybrid_f_shows_table_17_for_the_same_product_only() -> None:
    table = split_rows().tables[0]
    assert table.rows[2] == ("4", "here", "205", "100.0", "200.0", "250.0", "62.50", "250.0")
    assert table.rows[3] == ("4", "reference", "", "245.6", "4.708", "250.3", "21.92", "")
    assert {row[1] for row in split_rows(1024).tables[0].rows} == {"here"}


def test_hybrid_f_runs_and_checks_a_plan_for_the_cpu(kernel_cache: Path) -> None:
    problem = GemmProblem(65, 130, 33)
    profile = find_preset_profile("cpu", cpu_threads=2)
    a, b = draw_operands(problem)
    with Executor(cache_dir=kernel_cache, cpu_threads=2) as executor:
        found = hybrid_f.run_plan(executor, choose_plan(problem, profile, PlanOptions(f=65)), a, b)
    assert (found.f, found.waves, found.passed) == (65, 0, True)
    assert 0 < found.timings.cpu_seconds <= found.timings.total_seconds


def test_reports_say_when_a_product_is_wrong() -> None:
    wrong = split_rows(passed=False)
    assert not wrong.passed
    assert "WRONG: F = 0." in wrong.findings
    assert not add_product(padding_kept=False).passed
    assert "WRITTEN" in add_product(padding_kept=False).tables[0].rows[0]
    assert all(report.passed for report in list_reports())


def test_the_norm_lists_the_elements_that_differ() -> None:
    expected = np.random.default_rng(0).uniform(-1, 1, (50, 40))
    found = expected.astype(np.float32)
    assert check_product(found, expected).passed
    found[7, 3] += 0.5
    report = check_product(found, expected)
    assert not report.passed
    assert report.findings[0].startswith("FAILED")
    (row,) = report.tables[1].rows
    assert row == ("7", "3", f"{found[7, 3]:.9g}", f"{expected[7, 3]:.9g}")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_no_error_is_too_large_to_be_found(value: float) -> None:
    found = np.ones((5, 6), np.float32)
    found[4, 5] = value
    check = sdk_multiply.compare_norms(found, np.ones((5, 6)))
    assert not check.passed
    assert [(one.row, one.column) for one in check.first] == [(4, 5)]


@given(st.integers(0, 2**32 - 1), st.floats(1e-9, 1e-3))
def test_a_product_that_fails_has_elements_to_list(seed: int, size: float) -> None:
    generator = np.random.default_rng(seed)
    expected = generator.uniform(-1, 1, (9, 11))
    check = sdk_multiply.compare_norms(
        expected * (1 + size * generator.choice((-1, 1), (9, 11))), expected
    )
    assert check.passed == (check.error <= 1e-6)
    assert check.passed or check.differing > 0


def test_written_padding_is_detected() -> None:
    view, memory = pad_matrix(np.zeros((4, 5)), 8, "ldc", fill=-3.0)
    view[...] = 7.0
    assert matmatgpu.is_padding_kept(memory, 5)
    memory[2, 5] = 0.0
    assert not matmatgpu.is_padding_kept(memory, 5)


def test_a_leading_dimension_below_the_columns_is_refused() -> None:
    with pytest.raises(FieldError, match="lda is 4; it must be at least 5, the columns"):
        pad_matrix(np.zeros((4, 5)), 4, "lda", fill=0.0)


def test_operands_are_the_same_in_every_run() -> None:
    drawn = draw_matrix(20, 30, "float32", seed=1)
    np.testing.assert_array_equal(drawn, draw_matrix(20, 30, "float32", seed=1))
    assert drawn.dtype == np.float32
    assert -1 <= drawn.min() < -0.5 < 0.5 < drawn.max() <= 1


@pytest.mark.parametrize("report", list_reports(), ids=lambda report: report.name)
def test_written_reports_are_complete_and_their_axes_begin_at_0(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))[1]
    )
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
    for plot, figure in zip(report.plots, drawn, strict=True):
        check_plot(plot, figure)


def check_plot(plot: Plot, figure: Any) -> None:
    """It shows all lines and the hardware; its axes begin at 0 or are labelled logarithmic."""
    assert HARDWARE.gpu in figure.get_suptitle()
    for axes, panel in zip(figure.axes, plot.panels, strict=True):
        shown_label = (figure.axes[0] if plot.same_y else axes).get_ylabel()
        assert axes.get_xlabel()
        assert shown_label
        assert ("logarithmic" in shown_label) == (axes.get_yscale() == "log")
        assert axes.get_yscale() == "log" or axes.get_ylim()[0] == 0
        for line, shown in zip(panel.lines, axes.get_lines(), strict=True):
            assert tuple(shown.get_ydata()) == line.y
            low, high = axes.get_ylim()
            assert all(low <= y <= high for y in line.y)


@pytest.mark.parametrize("report", list_reports(), ids=lambda report: report.name)
def test_csv_keeps_every_digit_and_names_the_hardware(report: Report, tmp_path: Path) -> None:
    report = replace(report, plots=())
    files = write_report(report, tmp_path)
    assert write_report(report, tmp_path) == files  # again, over the first
    path = tmp_path / f"{report.name}.csv"
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    hardware = {"gpu": "Abacus 9", "cpu": "Difference Engine"}
    for read, row in zip(rows, report.rows, strict=True):
        written = hardware | dict(row)
        assert read == {name: "" if v is None else str(v) for name, v in written.items()}
        assert all(float(read[name]) == v for name, v in row.items() if isinstance(v, float))


def test_markdown_has_title_head_and_rows() -> None:
    table = Table("times", ("N", "here"), (("4", "1.5"), ("8", "2.5")))
    assert format_markdown(table) == (
        "**times**\n\n| N | here |\n| --- | ---: |\n| 4 | 1.5 |\n| 8 | 2.5 |"
    )
    assert read_tables(format_markdown(table)) == [[["N", "here"], ["4", "1.5"], ["8", "2.5"]]]


def test_csv_quotes_what_needs_it() -> None:
    assert format_csv([{"cpu": "a, b", "seconds": None}]) == 'cpu,seconds\n"a, b",\n'


@given(st.floats(1e-9, 1e6))
def test_figures_have_four_digits_and_no_exponent(value: float) -> None:
    for text, exact in ((format_milliseconds(value), 1e3 * value), (format_gflops(value), value)):
        assert "e" not in text
        assert float(text) == pytest.approx(exact, rel=6e-4)


def test_matplotlib_is_imported_only_to_draw() -> None:
    program = (
        "import sys, wavetrim.service.cli.main, wavetrim.lab.reports.report, "
        "wavetrim.lab.experiments.hybrid_f; "
        "print('matplotlib' in sys.modules)"
    )
    answer = run_python(program)
    assert answer.stdout == "False\n", answer.stderr


def test_a_report_as_text_names_the_product() -> None:
    text = format_report(split_rows())
    assert text.startswith("# hybrid-f\n\nC[2048,2048] = A[2048,2048]·B[2048,2048] in float32")
    assert "**Table 17: times over F, ms**" in text


def test_a_machine_without_a_gpu_is_refused_with_what_is_missing() -> None:
    with pytest.raises(DeviceUnavailable, match="none: WAVETRIM_DEVICES is 'none'"):
        pick_device((), "none")
    with pytest.raises(DeviceUnavailable, match=r"none: (CuPy is not installed|CUDA finds)"):
        pick_device((), None)
