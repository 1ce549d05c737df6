"""docs/teaching.md lists the kept probes, and what one learns from them."""

import pytest

from docs.report_pages import KEPT, PAGE, RunError, fill_lessons, publish_runs
from tests.lab.probe_reports import read_banks
from wavetrim.lab.reports.report import write_report

EMPTY = "before\n<!-- probed -->\n<!-- /probed -->\nafter\n"


WRITTEN = KEPT / "h200"
"""A folder as `wavetrim probe --out` writes it for all probes."""


def test_the_page_has_the_lessons_of_the_probes_that_are_kept():
    page = PAGE.read_text(encoding="utf-8")
    assert fill_lessons(page, KEPT) == page
    assert "No run is kept here yet." in fill_lessons(EMPTY, KEPT / "none")


def test_a_probe_with_wrong_results_is_not_published(tmp_path):
    write_report(read_banks(right=False), tmp_path / "found")
    with pytest.raises(RunError, match=r"banks.csv: a result was wrong"):
        publish_runs(tmp_path / "found", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
