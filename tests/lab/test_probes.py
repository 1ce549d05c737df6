"""Figures, tables, plots and files that probes make of readings, without a GPU."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.environment import ROOT
from tests.lab.probe_reports import (
    list_probe_reports,
    multiply_rows,
    read_banks,
    stride_copies,
    transfer_memory,
)
from tests.lab.reports import HARDWARE
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.lab.probes import waves
from wavetrim.lab.probes.catalog import PROBES
from wavetrim.lab.reports.bench import Bench
from wavetrim.lab.reports.report import Report, format_report, write_report

PAGE = ROOT / "docs" / "teaching.md"


def read_rows(report: Report, folder: Path) -> list[dict[str, str]]:
    write_report(replace(report, plots=()), folder)
    text = (folder / f"{report.name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("report", list_probe_reports(), ids=lambda report: report.name)
def test_reports_are_written_whole(report: Report, tmp_path: Path) -> None:
    assert report.plots
    rows = read_rows(report, tmp_path)
    text = format_report(report)
    assert str(HARDWARE) in text
    for table in report.tables:
        assert table.title in text
        assert {len(row) for row in table.rows} == {len(table.head)}
    assert len(rows) == len(report.rows)
    assert {row["gpu"] for row in rows} == {HARDWARE.gpu}


def test_every_probe_has_a_report_and_a_line_in_the_page() -> None:
    names = [probe.name for probe in PROBES]
    assert names == [report.name for report in list_probe_reports()]
    table = re.findall(r"^\| \[([a-z-]+)\]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert table == names
    assert all(probe.shows for probe in PROBES)


@pytest.mark.parametrize(
    "report",
    [
        stride_copies(right=False),
        read_banks(right=False),
        transfer_memory(right=False),
        multiply_rows(right=False),
    ],
    ids=lambda report: report.name,
)
def test_a_wrong_byte_fails_the_report(report: Report) -> None:
    assert not report.passed
    assert any(line.startswith("WRONG: ") for line in report.findings)
    assert "Every result was right." not in report.findings
    assert all(other.passed for other in list_probe_reports())


@pytest.mark.gpu
def test_a_staircase_is_measured_and_fitted(kernel_cache: Path) -> None:
    bench = Bench(device=list_devices()[0], cache_dir=kernel_cache, cpu_threads=1)
    report = waves.run_probe(bench, [find_kernel("shared", "float32")])
    assert len(report.plots) == 1
    times = [row["seconds"] for row in report.rows]
    assert len(times) > 8
    assert 0 < times[0] < times[-1]
    assert all(row["slots"] % bench.device.sm_count == 0 for row in report.rows)
    last = report.rows[-1]
    assert last["model_seconds"] == pytest.approx(last["seconds"], rel=0.5)
