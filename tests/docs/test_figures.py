"""Pages and plots show the measured figures of every benchmark."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks import readme
from benchmarks.common.plots import KEY, Plot
from benchmarks.common.results import ResultsError
from benchmarks.common.tables import README, RESULTS, ROOT, SHOWN
from benchmarks.host import plots as host_plots
from benchmarks.host import tables as host_tables
from benchmarks.host.results import read_contests, read_host_results
from benchmarks.http import tables as http_tables
from benchmarks.http.rows import read_http_results
from benchmarks.kernels import ladder
from benchmarks.kernels import tables as kernel_tables
from benchmarks.kernels.rows import read_results
from benchmarks.verify import tables as verify_tables

FILLS = [
    (
        host_tables.PAGE,
        lambda text: host_tables.fill_page(
            text, read_contests(RESULTS), read_host_results(RESULTS)
        ),
    ),
    (http_tables.PAGE, lambda text: http_tables.fill_page(text, read_http_results(RESULTS))),
    (
        kernel_tables.PAGE,
        lambda text: kernel_tables.fill_page(text, read_results(RESULTS, SHOWN)[0]),
    ),
    (README, readme.fill_readme),
    (readme.SETTINGS, readme.fill_settings),
    (readme.OPERATIONS, readme.fill_operations),
    (verify_tables.PAGE, verify_tables.fill_page),
]
"""Every page that is filled from results, and what fills it."""

PLOTS = [ladder.plot_shown, host_plots.plot_shown]

READERS = [
    ("kernels-h100.json", read_results, "make bench-kernels"),
    ("host-h100.json", read_contests, "make bench-host"),
    ("busy-h100.json", read_contests, "make bench-host"),
    ("http-h100.json", read_http_results, "make bench-http"),
]
"""A file of each benchmark, its reader, and the command that writes it."""


@pytest.mark.parametrize(("page", "fill"), FILLS, ids=lambda x: getattr(x, "name", ""))
def test_pages_show_the_figures_that_were_measured(page: Path, fill: Callable[[str], str]) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text


@pytest.mark.parametrize("plot_shown", PLOTS, ids=lambda x: x.__module__)
def test_plots_show_the_figures_that_were_measured(plot_shown: Callable[[], Plot]) -> None:
    pages = [README, *(ROOT / "docs").rglob("*.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    plot = plot_shown()
    with Image.open(plot.file) as image:
        assert image.info[KEY] == plot.digest
    assert f"{plot.file.name})" in shown
    assert plot.render() == plot.render()


@pytest.mark.parametrize(
    ("name", "read", "command"), READERS, ids=lambda x: getattr(x, "__name__", x)
)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda document: document.pop("rows"), "lacks 'rows'"),
        (lambda document: [row.pop("dtype") for row in document["rows"]], "Row 1 lacks 'dtype'"),
        (lambda document: document["hardware"].pop("gpu"), "lacks 'gpu'"),
        (lambda document: document.update(rows=[], regret=[]), "it has no rows"),
        (lambda document: document.pop("commit"), "lacks 'commit'"),
    ],
)
def test_incomplete_results_are_refused(
    name: str, read: Callable[[Path], Any], command: str, damage, message: str, tmp_path: Path
) -> None:
    document = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    damage(document)
    (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ResultsError, match=f"{name}.*{message}.*`{command}`"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "read", "command"), READERS, ids=lambda x: getattr(x, "__name__", x)
)
def test_results_are_read(
    name: str, read: Callable[[Path], Any], command: str, tmp_path: Path
) -> None:
    shutil.copy(RESULTS / name, tmp_path)
    (results,) = read(tmp_path)
    assert "NVIDIA H100" in results.document["hardware"]["gpu"]
    assert len(results.rows) > 100
    (tmp_path / name).write_text('{"rows": [', encoding="utf-8")
    with pytest.raises(ResultsError, match=f"{name}: Expecting value.*`{command}`"):
        read(tmp_path)


def test_a_folder_without_results_of_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no kernels-\*\.json"):
        read_results(tmp_path)
