"""docs/probes.md lists the probes that are kept beside it."""

import re
from pathlib import Path

import pytest

from benchmarks.reproduce_pages import (
    PROBES_KEPT,
    PROBES_PAGE,
    RunError,
    fill_page,
    publish_runs,
)
from scheduler.experiments.report import write_report
from tests.probe_reports import list_probe_reports, read_banks
from tests.reports import split_rows

EMPTY = "before\n<!-- probed -->\n<!-- /probed -->\nafter\n"


def test_the_page_lists_the_probes_that_are_kept() -> None:
    page = PROBES_PAGE.read_text(encoding="utf-8")
    assert fill_page(page, PROBES_KEPT, "probed") == page


def test_links_of_the_page_and_of_the_probes_lead_somewhere() -> None:
    for page in (PROBES_PAGE, *PROBES_KEPT.glob("*/*.md")):
        for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), (page, link)


def test_probes_are_copied_whole_and_listed(tmp_path: Path) -> None:
    written, docs = tmp_path / "written", tmp_path / "docs"
    for report in (*list_probe_reports(), split_rows()):
        write_report(report, written)
    publish_runs(written, docs / "reproduced", docs / "probed")
    assert [file.name for file in (docs / "reproduced" / "9").glob("*.md")] == ["hybrid-f.md"]
    page = fill_page(EMPTY, docs / "probed", "probed")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert {(docs / link).resolve() for link in links} == set((docs / "probed" / "9").iterdir())
    named = re.findall(r"^\| \[([a-z-]+)\]", page, re.MULTILINE)
    assert named == [report.name for report in list_probe_reports()]


def test_a_probe_that_moved_wrong_bytes_is_not_published(tmp_path: Path) -> None:
    write_report(read_banks(right=False), tmp_path / "found")
    with pytest.raises(RunError, match=r"banks.csv: a product was wrong"):
        publish_runs(tmp_path / "found", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
