"""Pages and plots show the measured figures of every benchmark."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.cluster.pages import SCALE, fill_scale
from benchmarks.common.plots import Plot
from benchmarks.common.results import ResultsError, write_document
from benchmarks.common.tables import README, RESULTS, ROOT
from benchmarks.host import tables as host_tables
from benchmarks.host.busy.tables import fill_busy
from benchmarks.host.plots import list_plots as list_host_plots
from benchmarks.host.results import read_host_results
from benchmarks.http import tables as http_tables
from benchmarks.http.plot import list_plots as list_http_plots
from benchmarks.http.rows import read_http_results
from benchmarks.kernels import code_tables as kernel_code_tables
from benchmarks.kernels import tables as kernel_tables
from benchmarks.kernels.ladder import plot_ladder
from benchmarks.kernels.rows import read_results
from benchmarks.verify import tables as verify_tables
from tests.benchmarks.host_figures import invent_host_results
from tests.benchmarks.http_figures import invent_results as invent_http_results
from tests.benchmarks.kernel_figures import invent_results as invent_kernel_results


@dataclass(frozen=True)
class Kind:
    """A benchmark whose figures are shown on a page of their own."""

    name: str
    tables: ModuleType
    prefix: str
    read: Callable[[Path], list[Any]]
    plot: Callable[[Any], list[Plot]]
    invented: Any
    others: Any
    caption: str

    def make_page(self) -> str:
        marks = [f"{self.prefix}{name}" for name in self.tables.SECTIONS]
        return "".join(f"<!-- {mark} -->\n<!-- /{mark} -->\n" for mark in marks)

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


def fill_page(kind: Kind, text: str) -> str:
    return kind.tables.fill_page(text, kind.read(RESULTS))


HOST, HTTP, KERNELS = invent_host_results(), invent_http_results(), invent_kernel_results()
KINDS = [
    Kind("kernels", kernel_tables, "", read_results, lambda one: [plot_ladder(one)], KERNELS,
         invent_kernel_results(pace=2.0),
         "NVIDIA Abacus, driver 1.2, cuBLAS 3.4, NVRTC 5.6, commit abc"),
    Kind("host", host_tables, "host-", read_host_results,
         lambda one: list(list_host_plots(one).values()), HOST,
         replace(HOST, rows=HOST.rows[9:], regret=HOST.regret[:60]),
         "NVIDIA Abacus, driver 1.2, beside 16 cores of Beads; CuPy 3.4, NumPy 5.6; commit abc"),
    Kind("http", http_tables, "http-", read_http_results, lambda one: list(list_http_plots(one)),
         HTTP, replace(HTTP, rows=HTTP.rows[:5]),
         "NVIDIA Abacus, driver 1.2, with 16 cores of Beads; NumPy 5.6, FastAPI 7, uvicorn 8; "
         "commit abc"),
]  # fmt: skip
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


FILLS = [
    *((kind.tables.PAGE, partial(fill_page, kind)) for kind in KINDS),
    (host_tables.PAGE, fill_busy),
    (kernel_tables.PAGE, kernel_code_tables.fill_page),
    (README, readme.fill_readme),
    (readme.SETTINGS, readme.fill_settings),
    (readme.OPERATIONS, readme.fill_operations),
    (verify_tables.PAGE, verify_tables.fill_page),
    (SCALE, fill_scale),
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
    plots = [plot for results in kind.read(RESULTS) for plot in kind.plot(results)]
    assert [plot.file for plot in plots if not plot.is_current()] == []
    assert any(f"{plot.file.name})" in shown for plot in plots)


@EACH
def test_the_same_figures_give_the_same_plot(kind: Kind, tmp_path: Path) -> None:
    others = kind.plot(kind.others)
    for plot, other in zip(kind.plot(kind.invented), others, strict=True):
        kept = replace(plot, file=tmp_path / plot.file.name)
        kept.file.write_bytes(plot.render())
        assert plot.render() == kept.file.read_bytes()
        assert kept.is_current()
        assert not replace(other, file=kept.file).is_current()


@EACH
def test_every_section_is_filled(kind: Kind) -> None:
    filled = kind.tables.fill_page(kind.make_page(), [kind.invented])
    assert kind.tables.fill_page(filled, [kind.invented]) == filled
    assert filled.count(kind.caption) == len(kind.tables.SECTIONS)
    assert "do not hold" not in filled
    assert "Not measured yet" not in filled


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.name)
def test_without_results_the_page_says_so(kind: Kind) -> None:
    filled = kind.tables.fill_page(kind.make_page(), [])
    assert filled.count(kind.tables.NOT_MEASURED) == len(kind.tables.SECTIONS)
    assert not re.search(r"\d", filled)


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
