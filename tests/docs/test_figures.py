"""Pages and plots show the measured figures of every benchmark."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.common.plots import Plot
from benchmarks.common.results import ResultsError, write_document
from benchmarks.common.tables import README, RESULTS, ROOT, SHOWN
from benchmarks.host import plots
from benchmarks.host import tables as host_tables
from benchmarks.host.busy.tables import fill_busy
from benchmarks.host.plots import plot_limit
from benchmarks.host.results import read_host_results
from benchmarks.http import plot as http_plot
from benchmarks.http import tables as http_tables
from benchmarks.http.plot import plot_products
from benchmarks.http.rows import read_http_results
from benchmarks.kernels import ladder
from benchmarks.kernels import tables as kernel_tables
from benchmarks.kernels.ladder import plot_ladder
from benchmarks.kernels.rows import find_results, read_results
from benchmarks.verify import tables as verify_tables
from tests.benchmarks.host_figures import invent_host_results
from tests.benchmarks.http_figures import invent_results as invent_http_results
from tests.benchmarks.kernel_figures import invent_results as invent_kernel_results


@dataclass(frozen=True)
class Kind:
    """A benchmark with a plot of its own."""

    name: str
    read: Callable[[Path], list[Any]]
    plot: Callable[[Any], Plot]
    plot_shown: Callable[[], Plot]
    invented: Any
    others: Any
    caption: str

    def write(self, folder: Path, change: Callable[[dict[str, Any]], object] = id) -> Path:
        """The invented results as the benchmark writes them, after a change."""
        file = folder / f"{self.name}-abacus.json"
        write_results(file, self.invented)
        document = json.loads(file.read_text(encoding="utf-8"))
        if change is not id:
            change(document)
            file.write_text(json.dumps(document), encoding="utf-8")
        return file


def write_results(file: Path, results: Any) -> None:
    lists = {x: getattr(results, x) for x in ("rows", "regret", "absent") if hasattr(results, x)}
    write_document(file, **{**results.document, **lists})


HOST, HTTP, KERNELS = invent_host_results(), invent_http_results(), invent_kernel_results()
KINDS = [
    Kind(
        *("kernels", read_results, plot_ladder, ladder.plot_shown, KERNELS),
        others=invent_kernel_results(pace=2.0),
        caption="NVIDIA Abacus, driver 1.2, cuBLAS 3.4, NVRTC 5.6, commit abc",
    ),
    Kind(
        *("host", read_host_results, plot_limit, plots.plot_shown, HOST),
        others=replace(HOST, rows=HOST.rows[9:]),
        caption="NVIDIA Abacus, driver 1.2, beside 16 cores of Beads; CuPy 3.4, NumPy 5.6; "
        "commit abc",
    ),
    Kind(
        *("http", read_http_results, plot_products, http_plot.plot_shown, HTTP),
        others=replace(HTTP, rows=HTTP.rows[:5]),
        caption="NVIDIA Abacus, driver 1.2, with 16 cores of Beads; NumPy 5.6, FastAPI 7, "
        "uvicorn 8; commit abc",
    ),
]
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


FILLS = [
    (host_tables.PAGE, lambda text: host_tables.fill_page(text, read_host_results(RESULTS))),
    (host_tables.PAGE, fill_busy),
    (http_tables.PAGE, lambda text: http_tables.fill_page(text, read_http_results(RESULTS))),
    (kernel_tables.PAGE, lambda text: kernel_tables.fill_page(text, find_results(RESULTS, SHOWN))),
    (README, readme.fill_readme),
    (readme.SETTINGS, readme.fill_settings),
    (readme.OPERATIONS, readme.fill_operations),
    (verify_tables.PAGE, verify_tables.fill_page),
]
"""Every page that is filled from results, and what fills it."""


@pytest.mark.parametrize(("page", "fill"), FILLS, ids=lambda x: getattr(x, "name", ""))
def test_pages_show_the_figures_that_were_measured(page: Path, fill: Callable[[str], str]) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text


@EACH
def test_plots_show_the_figures_that_were_measured(kind: Kind) -> None:
    pages = [README, *(ROOT / "docs").rglob("*.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    plot = kind.plot_shown()
    assert plot.is_current()
    assert f"{plot.file.name})" in shown


@EACH
def test_the_same_figures_give_the_same_plot(kind: Kind, tmp_path: Path) -> None:
    plot, other = kind.plot(kind.invented), kind.plot(kind.others)
    kept = replace(plot, file=tmp_path / plot.file.name)
    kept.file.write_bytes(plot.render())
    assert plot.render() == kept.file.read_bytes()
    assert kept.is_current()
    assert not replace(other, file=kept.file).is_current()


@EACH
def test_results_are_read_as_they_are_written(kind: Kind, tmp_path: Path) -> None:
    file, again = kind.write(tmp_path), tmp_path / "again.json"
    (read,) = kind.read(tmp_path)
    assert read.caption == kind.invented.caption
    assert len(read.rows) == len(kind.invented.rows)
    write_results(again, read)
    assert again.read_text(encoding="utf-8") == file.read_text(encoding="utf-8")


@EACH
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda document: document.pop("rows"), "lacks 'rows'"),
        (lambda document: document["rows"][2].pop("spread"), "Row 3 lacks 'spread'"),
        (lambda document: document["hardware"].pop("driver"), "lacks 'driver'"),
        (lambda document: document.update(rows=[], regret=[]), "it has no rows"),
        (lambda document: document.pop("commit"), "lacks 'commit'"),
    ],
)
def test_incomplete_results_are_refused(kind: Kind, damage, message: str, tmp_path: Path) -> None:
    if kind.name == "http" and "no rows" in message:
        return  # a machine on which nothing ran is shown
    kind.write(tmp_path, damage)
    with pytest.raises(ResultsError, match=f"{message}.*`make bench-{kind.name}`"):
        kind.read(tmp_path)
    (tmp_path / f"{kind.name}-abacus.json").write_text('{"rows": [', encoding="utf-8")
    with pytest.raises(ResultsError, match=rf"{kind.name}-abacus\.json: Expecting value"):
        kind.read(tmp_path)


def test_a_folder_without_results_of_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no kernels-<gpu>\.json"):
        read_results(tmp_path)


def test_older_files_are_read_without_contests_on_some_multiprocessors(tmp_path: Path) -> None:
    def make_older(document: dict[str, Any]) -> None:
        for row in document["rows"]:
            row["contender"] = row.pop("baseline")
            row |= {"sms": 132, "commit": "older"}
        document["rows"][0]["sms"] = 8

    KINDS[1].write(tmp_path, make_older)
    (read,) = read_host_results(tmp_path)
    assert read.rows == HOST.rows[1:]
    assert read.caption.endswith("commit abc, older")
