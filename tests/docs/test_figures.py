"""Pages and plots show the measured figures of every benchmark, and the probes that are kept."""

import pytest
from PIL import Image

from benchmarks.common.plots import KEY
from benchmarks.common.tables import README, ROOT
from benchmarks.figures import PLOTS, SECTIONS, fill
from docs.report_pages import KEPT, PAGE, RunError, fill_lessons, publish_runs
from tests.lab.reports import read_banks
from wavetrim.lab.reports.report import write_report


@pytest.mark.parametrize("name", SECTIONS)
def test_pages_show_the_figures_that_were_measured(name):
    text = SECTIONS[name][0].read_text(encoding="utf-8")
    assert fill(text, name) == text


@pytest.mark.parametrize("plot_shown", PLOTS, ids=lambda x: x.__module__)
def test_plots_show_the_figures_that_were_measured(plot_shown):
    pages = [README, *(ROOT / "docs").rglob("*.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    plot = plot_shown()
    with Image.open(plot.file) as image:
        assert image.info[KEY] == plot.digest
    assert f"{plot.file.name})" in shown
    assert plot.render().startswith(b"\x89PNG")


def test_the_page_has_the_lessons_of_the_probes_that_are_kept():
    page = PAGE.read_text(encoding="utf-8")
    assert fill_lessons(page, KEPT) == page
    empty = "<!-- probed -->\n<!-- /probed -->\n"
    assert "No run is kept here yet." in fill_lessons(empty, KEPT / "none")


def test_a_probe_with_wrong_results_is_not_published(tmp_path):
    write_report(read_banks(right=False), tmp_path / "found")
    with pytest.raises(RunError, match=r"banks.csv: a result was wrong"):
        publish_runs(tmp_path / "found", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
