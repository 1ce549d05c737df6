"""Pages and plots show the measured figures of every benchmark."""

import pytest
from PIL import Image

from benchmarks.common.plots import KEY
from benchmarks.common.tables import README, ROOT
from benchmarks.figures import PLOTS, SECTIONS, fill


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
