"""Figures, tables, plots and files that probes make of readings, without a GPU."""

import re
from pathlib import Path

import pytest

from tests.environment import ROOT
from tests.lab.probe_reports import (
    list_probe_reports,
)
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.lab.probes import waves
from wavetrim.lab.probes.catalog import PROBES
from wavetrim.lab.reports.bench import Bench

PAGE = ROOT / "docs" / "teaching.md"


def test_every_probe_has_a_report_and_a_line_in_the_page() -> None:
    names = [probe.name for probe in PROBES]
    assert names == [report.name for report in list_probe_reports()]
    table = re.findall(r"^\| \[([a-z-]+)\]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert table == names
    assert all(probe.shows for probe in PROBES)


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
