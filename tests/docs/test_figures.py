"""Pages and plots show the measured figures of every benchmark."""

import shutil

import pytest
from PIL import Image

from benchmarks.common.plots import KEY
from benchmarks.common.results import ResultsError
from benchmarks.common.tables import README, RESULTS, ROOT
from benchmarks.figures import PLOTS, SECTIONS, fill
from benchmarks.host.results import read_contests
from benchmarks.http.rows import read_http_results
from benchmarks.kernels.rows import read_kernel_results

READERS = [
    ("kernels-h100.json", read_kernel_results, "make bench-kernels"),
    ("host-h100.json", read_contests, "make bench-host"),
    ("busy-h100.json", read_contests, "make bench-host"),
    ("http-h100.json", read_http_results, "make bench-http"),
]
"""A file of each benchmark, its reader, and the command that writes it."""


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


@pytest.mark.parametrize(
    ("name", "read", "command"), READERS, ids=lambda x: getattr(x, "__name__", x)
)
def test_results_are_read(name, read, command, tmp_path):
    shutil.copy(RESULTS / name, tmp_path)
    (results,) = read(tmp_path)
    assert "NVIDIA H100" in results.document["hardware"]["gpu"]
    assert len(results.rows) > 100
    (tmp_path / name).write_text('{"rows": [', encoding="utf-8")
    with pytest.raises(ResultsError, match=f"{name}: Expecting value.*`{command}`"):
        read(tmp_path)
