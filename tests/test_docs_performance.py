"""docs/performance.md and its plots show the figures that were measured."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.host_plots import PLOTS, digest_figures, find_plot, list_plots, read_digest
from benchmarks.host_rows import HostResults, read_host_results
from benchmarks.host_summary import (
    OURS,
    find_hybrid_gain,
    find_mean_speedup,
    find_percentile,
    find_worst_ratio,
    list_promises,
)
from benchmarks.host_tables import NOT_MEASURED, PAGE, SECTIONS, fill_page
from benchmarks.measured import ResultsError
from benchmarks.tables import README, RESULTS
from tests.host_figures import change_document, invent_host_results, write_host_results

INVENTED = invent_host_results()


def read_cells(text: str, *first: str) -> list[str]:
    """Cells of the first line that begins with these."""
    begin = f"| {' | '.join(first)} |"
    line = next(line for line in text.splitlines() if line.startswith(begin))
    return line.strip("| ").split(" | ")[len(first) :]


def test_the_page_shows_the_figures_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_page(page, read_host_results(RESULTS)) == page


def test_plots_show_the_figures_that_were_measured() -> None:
    readme = README.read_text(encoding="utf-8")
    for results in read_host_results(RESULTS):
        for name in list_plots(results):
            png = find_plot(results, name)
            assert read_digest(png) == digest_figures(results, name)
            assert f"](docs/{png.name})" in readme


def test_a_plot_is_drawn_where_there_is_something_to_draw() -> None:
    assert list_plots(INVENTED) == list(PLOTS)
    assert list_plots(replace(INVENTED, regret=())) == ["limit"]
    assert list_plots(replace(INVENTED, rows=())) == ["f"]


def test_without_results_the_page_says_so() -> None:
    page = "".join(f"<!-- host-{name} -->\n<!-- /host-{name} -->\n" for name in SECTIONS)
    filled = fill_page(page, [])
    assert filled.count(NOT_MEASURED) == len(SECTIONS)
    assert not re.search(r"\d", filled)


def test_every_section_is_filled() -> None:
    page = "".join(f"<!-- host-{name} -->\n<!-- /host-{name} -->\n" for name in SECTIONS)
    filled = fill_page(page, [INVENTED])
    assert fill_page(filled, [INVENTED]) == filled
    caption = "NVIDIA Abacus, driver 1.2, beside 16 cores of Beads; CuPy 3.4, NumPy 5.6; commit abc"
    assert filled.count(caption) == len(SECTIONS)
    assert "do not hold" not in filled


def test_tables_show_times_shares_gains_and_errors() -> None:
    shown = {name: render(INVENTED) for name, render in SECTIONS.items()}
    assert read_cells(shown["link"], "55.0") == ["51.0"]
    assert read_cells(shown["times"], "4224³") == ["95%", "10", "12", *["50"] * 5]
    assert read_cells(shown["held"], "8192³", "float64", "4") == ["100", "160", "160", "1.60"]
    assert read_cells(shown["regret"], "float64", "all") == [
        "26", "1.010", "1.010", "0.800", "4%, 4%", "4%, 4%", "4%, 4%",
    ]  # fmt: skip
    assert shown["left-out"] == "- torch: not there"
    asked = "pageable: mean speed over plain CuPy's"
    assert read_cells(shown["promises"], asked, "float32") == ["≥ 4", "5.000", "yes"]
    asked = "pinned: share of the limit, 65536×256×256"
    assert read_cells(shown["promises"], asked, "float32") == ["≥ 1", "0.950", "**no**"]


def test_promises_that_were_measured_in_part_are_not_judged() -> None:
    rows = tuple(row for row in INVENTED.rows if row.shape != (16384, 16384, 256))
    promises = {x.what: x for x in list_promises(replace(INVENTED, rows=rows, regret=()))}
    assert promises["pageable: mean speed over tuned cublasXt's"].kept is None
    assert promises["pinned: share of the limit, 65536×256×256"].kept is False
    assert promises["regret of F, median"].found is None
    shares = [x for what, x in promises.items() if what.startswith("pinned: share of the limit, 8")]
    assert [x.found for x in shares] == [None]


def test_means_and_ratios_are_those_of_the_rows() -> None:
    rows = list(INVENTED.rows)
    assert find_mean_speedup(rows, "cublasxt", "float32") == pytest.approx(5.0)
    assert find_worst_ratio(rows, "float64") == pytest.approx(0.2)
    assert find_hybrid_gain(rows, (4096, 4096, 4096), "float64", 4) == pytest.approx(1.6)
    slow = [
        replace(row, seconds=0.1)
        if (row.contender, row.m, row.k) == (OURS, 4224, 4224) and row.memory == "pageable"
        else row
        for row in rows
    ]
    assert find_worst_ratio(slow, "float32") == pytest.approx(2.0)


def test_percentiles_are_the_nearest_ranks() -> None:
    assert find_percentile(range(1, 101), 95) == 95
    assert find_percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert find_percentile([7.0], 95) == 7.0
    assert find_percentile([], 50) is None


def test_results_are_read_as_they_are_written(tmp_path: Path) -> None:
    file = write_host_results(INVENTED, tmp_path)
    (read,) = read_host_results(tmp_path)
    assert (read.name, read.rows, read.regret) == ("abacus", INVENTED.rows, INVENTED.regret)
    change_document(file, lambda document: document["hardware"].update(gpu=None))
    assert read_host_results(tmp_path) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda document: document.pop("rows"), "host-abacus.json: lacks 'rows'"),
        (lambda document: document["rows"][2].pop("seconds"), "HostRow 3 lacks 'seconds'"),
        (lambda document: document["regret"][0].pop("f"), "RegretRow 1 lacks 'f'"),
        (lambda document: document["hardware"].pop("driver"), "lacks 'driver'"),
        (lambda document: document.update(rows=[], regret=[]), "it has no rows"),
    ],
)
def test_results_without_what_is_shown_are_refused(damage, message: str, tmp_path: Path) -> None:
    file = write_host_results(INVENTED, tmp_path)
    change_document(file, damage)
    with pytest.raises(ResultsError, match=f"{message}.*`make bench-host`"):
        read_host_results(tmp_path)


@pytest.mark.parametrize("name", PLOTS)
def test_the_same_figures_give_the_same_plot(name: str, tmp_path: Path) -> None:
    png = PLOTS[name](INVENTED)
    assert png == PLOTS[name](INVENTED)
    file = tmp_path / "plot.png"
    file.write_bytes(png)
    assert read_digest(file) == digest_figures(INVENTED, name)
    assert digest_figures(INVENTED, name) != digest_figures(
        replace(INVENTED, rows=INVENTED.rows[9:], regret=INVENTED.regret[:60]), name
    )


@pytest.mark.parametrize("name", PLOTS)
def test_a_file_of_one_part_still_gives_plots(name: str) -> None:
    for part in (
        HostResults("abacus", INVENTED.document, INVENTED.rows, ()),
        HostResults("abacus", INVENTED.document, (), INVENTED.regret),
    ):
        assert PLOTS[name](part).startswith(b"\x89PNG")
