"""docs/reproduce.md lists the kept runs."""

import shutil
from pathlib import Path

import pytest

from docs.report_pages import DOCS, KEPT, PAGE, RunError, fill_page, publish_runs, read_runs
from tests.lab.reports import HARDWARE, add_product, list_reports, split_rows
from wavetrim.lab.reports.report import write_report

EMPTY = "before\n<!-- reproduced -->\n<!-- /reproduced -->\nafter\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `wavetrim reproduce --out` writes it; tests do not change it."""
    folder = tmp_path_factory.mktemp("written")
    for report in list_reports():
        if report.passed:
            write_report(report, folder)
    return folder


@pytest.fixture(scope="module")
def split_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    write_report(split_rows(), folder)
    return folder


@pytest.fixture
def split(split_once: Path, tmp_path: Path) -> Path:
    """A folder with one report, for a test to change."""
    return shutil.copytree(split_once, tmp_path / "split")


def test_the_page_lists_the_runs_that_are_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_page(page, KEPT) == page


def test_published_runs_are_complete_and_listed(written: Path, tmp_path: Path) -> None:
    kept = tmp_path / "docs" / "reproduced"
    runs = publish_runs(written, kept)
    assert {run.name for run in runs} == {path.stem for path in written.glob("*.md")}
    assert len(runs) >= 5
    copied = {path.name: path.read_bytes() for path in (kept / "9").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in written.iterdir()}
    page = fill_page(EMPTY, kept)
    assert page.startswith(f"before\n<!-- reproduced -->\nOn {HARDWARE}:\n\n| report |")
    for file in copied:
        assert f"](reproduced/9/{file})" in page
        assert (tmp_path / "docs" / "reproduced" / "9" / file).is_file()
    assert "Every product was right." in page
    assert fill_page(page, kept) == page


def test_a_later_run_replaces_the_one_before(written: Path, tmp_path: Path) -> None:
    kept = tmp_path / "reproduced"
    publish_runs(written, kept)
    later = tmp_path / "later"
    write_report(split_rows(4096), later)
    publish_runs(later, kept)
    assert "C[4096,4096]" in (kept / "9" / "hybrid-f.md").read_text("utf-8")
    assert len(read_runs(kept / "9")) == len(read_runs(written))


def test_without_runs_the_page_says_so(tmp_path: Path) -> None:
    assert "\nNo run is kept here yet.\n" in fill_page(EMPTY, tmp_path / "none")


@pytest.mark.parametrize("report", [split_rows(passed=False), add_product(padding_kept=False)])
def test_a_wrong_product_is_not_published(report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "found")
    with pytest.raises(RunError, match=f"{report.name}.csv: a product was wrong"):
        publish_runs(tmp_path / "found", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hybrid-f.csv", "hybrid-f.csv is missing"),
        ("hybrid-f.png", "hybrid-f.png does not lie beside it"),
        ("hybrid-f.md", "no NAME.md of compara-kernels"),
    ],
)
def test_an_incomplete_run_is_not_published(name: str, message: str, split: Path) -> None:
    (split / name).unlink()
    with pytest.raises(RunError, match=message):
        publish_runs(split, split.parent / "kept")


def test_a_report_of_another_form_is_refused(split: Path) -> None:
    (split / "hybrid-f.md").write_text("# hybrid-f\n", encoding="utf-8")
    with pytest.raises(RunError, match="not what `wavetrim reproduce hybrid-f` writes"):
        read_runs(split)


def test_figures_of_two_gpus_are_not_mixed(split: Path) -> None:
    file = split / "hybrid-f.csv"
    file.write_text(file.read_text("utf-8").replace("Abacus 9", "Abacus 8", 1), encoding="utf-8")
    with pytest.raises(RunError, match="every row must name the same one"):
        read_runs(split)


def test_the_page_and_the_runs_lie_in_the_docs() -> None:
    assert PAGE.parent == KEPT.parent == DOCS
