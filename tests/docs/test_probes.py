"""docs/teaching.md lists the kept probes, and what one learns from them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs.report_lessons import read_lessons
from docs.report_pages import KEPT, PAGE, RunError, fill_lessons, publish_runs
from tests.lab.probe_reports import climb_waves, list_probe_reports, read_banks
from wavetrim.lab.reports.report import write_report

EMPTY = "before\n<!-- probed -->\n<!-- /probed -->\nafter\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `wavetrim probe --out` writes it for all probes; tests do not change it."""
    folder = tmp_path_factory.mktemp("written")
    for report in list_probe_reports():
        write_report(replace(report, plots=()), folder)
    return folder


def test_the_page_has_the_lessons_of_the_probes_that_are_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_lessons(page, KEPT) == page
    assert "No run is kept here yet." in fill_lessons(EMPTY, KEPT / "none")


def test_every_probe_has_a_lesson_with_its_own_figures(written: Path) -> None:
    names = [report.name for report in list_probe_reports()]
    lessons = dict(read_lessons(written, names))
    assert list(lessons) == names
    assert lessons["strides"].startswith("At the strides 2, 8 and 32 a copy keeps 50%, 12% and 3%")
    assert "stride 32) take 32.0 times" in lessons["banks"]
    assert "640 bytes spill, and the same work takes 2.0 times" in lessons["registers"]
    assert "12 of 26 copies waited" in lessons["row-copies"]
    assert "12 tiles take 8 µs and 15 take 14: a wave more" in lessons["waves"]


def test_a_later_run_replaces_all_plots(tmp_path: Path) -> None:
    found, kept = tmp_path / "found", tmp_path / "kept"
    write_report(climb_waves(), found)
    publish_runs(found, kept)
    (kept / "9" / "waves-shared.png").rename(kept / "9" / "waves-old.png")
    page = kept / "9" / "waves.md"
    page.write_text(page.read_text("utf-8").replace("waves-shared.png", "waves-old.png"), "utf-8")
    publish_runs(found, kept)
    assert {file.name for file in (kept / "9").iterdir()} == {file.name for file in found.iterdir()}


def test_published_probes_are_complete_and_listed(written: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    publish_runs(written, docs / "probed")
    page = fill_lessons(EMPTY, docs / "probed")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert {(docs / link).resolve() for link in links} == set((docs / "probed" / "9").glob("*.md"))
    named = re.findall(r"^\| \[([a-z-]+)\]", page, re.MULTILINE)
    assert named == [report.name for report in list_probe_reports()]


def test_a_probe_with_wrong_results_is_not_published(tmp_path: Path) -> None:
    write_report(read_banks(right=False), tmp_path / "found")
    with pytest.raises(RunError, match=r"banks.csv: a result was wrong"):
        publish_runs(tmp_path / "found", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
