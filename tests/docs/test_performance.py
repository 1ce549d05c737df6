"""docs/performance.md and its plots show the figures that were measured."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.results import ResultsError
from benchmarks.common.tables import README, RESULTS
from benchmarks.host.baselines.lineup import OURS, PRESET
from benchmarks.host.judged import find_percentile, judge, list_contests
from benchmarks.host.plots import list_plots
from benchmarks.host.results import read_host_file, read_host_results
from benchmarks.host.tables import NOT_MEASURED, PAGE, SECTIONS, WORST, fill_page
from tests.benchmarks.host_figures import (
    change_document,
    invent_host_results,
    invent_host_row,
    write_host_results,
)

INVENTED = invent_host_results()
PLOTS = list_plots(INVENTED)


def read_cells(text: str, *first: str) -> list[str]:
    """Cells of the first line that begins with these."""
    begin = f"| {' | '.join(first)} |"
    line = next(line for line in text.splitlines() if line.startswith(begin))
    return line.strip("| ").split(" | ")[len(first) :]


def test_the_page_shows_the_figures_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_page(page, read_host_results(RESULTS)) == page


def test_plots_show_the_figures_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for results in read_host_results(RESULTS):
        for plot in list_plots(results).values():
            assert plot.is_current()
            assert f"]({plot.file.name})" in page


def test_the_readme_has_both_plots() -> None:
    readme = README.read_text(encoding="utf-8")
    for name in PLOTS:
        assert re.search(rf"\]\(docs/host-{name}-\w+\.png\)", readme)


def test_a_plot_is_drawn_where_there_is_something_to_draw() -> None:
    assert list(PLOTS) == ["limit", "f"]
    assert list(list_plots(replace(INVENTED, regret=()))) == ["limit"]
    assert list(list_plots(replace(INVENTED, rows=()))) == ["f"]


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
    assert NOT_MEASURED not in filled


def test_a_run_has_a_part_in_the_sections_that_it_measured() -> None:
    page = "".join(f"<!-- host-{name} -->\n<!-- /host-{name} -->\n" for name in SECTIONS)
    contests, sweeps = replace(INVENTED, regret=()), replace(INVENTED, rows=())
    filled = fill_page(page, [contests, sweeps])
    assert filled.count(INVENTED.caption) == len(SECTIONS) + 3  # both: judged, link, left out
    assert filled.count("| regret of F, 90th percentile |") == 1
    assert filled.count("| error of predicted seconds, calibrated, median |") == 1


def test_tables_show_times_shares_gains_and_errors() -> None:
    shown = {name: render(INVENTED) for name, render in SECTIONS.items()}
    assert read_cells(shown["link"], "55.0") == ["51.0"]
    assert read_cells(shown["times"], "4224³") == ["95%", "10", "11", "12", *["50"] * 5]
    assert read_cells(shown["times"], "64³") == ["10", "11", "12", *["50"] * 4]
    assert read_cells(shown["splits"], "8192³", "float64", "4") == [
        *("4096", "10", "10", "12.5", "", "1.25", "15", "20")
    ]
    assert read_cells(shown["regret"], "float64", "all") == [
        "26", "1.010", "1.010", "1.010", "0.800", "4%, 4%", "4%, 4%", "4%, 4%",
    ]  # fmt: skip
    assert shown["left-out"] == "- torch: not there"
    assert shown["worst"].count("\n") == WORST + 1


def test_all_that_is_asked_is_judged() -> None:
    table = SECTIONS["judged"](INVENTED)
    contests = 2 * (52 + 10 + 40)
    for what, cells in {
        "products slower than the fastest other by 3% + 0.05 ms": ["≤ 0", "0", str(contests)],
        "random products, pinned: mean speed over the fastest other": ["≥ 1.1", "5.000", "40"],
        "random products, pageable: mean speed over the fastest other": ["≥ 4", "5.000", "40"],
        "64³ to 1024³, pinned: largest time over cupy-streams'": ["≤ 1", "0.200", "12"],
        "64³ to 1024³, pageable: largest time over cupy-streams'": ["≤ 1", "0.200", "12"],
        "error of predicted seconds, calibrated, median": ["≤ 0.03", "0.020", str(contests)],
        "error of predicted seconds, calibrated, 95th percentile": ["≤ 0.1", "0.020", "204"],
        "error of predicted seconds, from a preset alone, median": ["≤ 0.1", "0.073", "204"],
        "8192³ float32, pinned: share of the limit": ["≥ 0.947", "0.950", "1"],
        "suite, pageable, float32: mean speed over cublasxt": ["≥ 2.94", "5.000", "26"],
        "regret of F, 95th percentile": ["≤ 1.06", "1.010", "208"],
        "splits, half of the cores busy: mean speed of the plan as it is over its F pinned": [
            *("≥ 1.2", "1.333", "200")
        ],
    }.items():
        assert read_cells(table, what) == [*cells, "yes"]
    what = "suite, pageable, float32: mean speed over cupy"
    assert read_cells(table, what) == ["≥ 6.664", "5.000", "26", "**no**"]


def test_what_was_not_measured_is_not_judged() -> None:
    rows = tuple(row for row in INVENTED.rows if row.group == "suite" and row.baseline != PRESET)
    met = {x.what: x.met for x in judge(replace(INVENTED, rows=rows, regret=()))}
    assert met["random products, pinned: mean speed over the fastest other"] is None
    assert met["error of predicted seconds, from a preset alone, median"] is None
    assert met["8192³ float32, pinned: share of the limit"] is True
    assert not any("regret" in what for what in met)


def test_a_product_is_slower_beyond_a_share_and_a_moment() -> None:
    def count(ours_seconds: float) -> float | None:
        rows = (invent_host_row(OURS, seconds=ours_seconds), invent_host_row("torch", seconds=1.0))
        return judge(replace(INVENTED, rows=rows, regret=()))[0].found

    assert count(1.03004) == 0
    assert count(1.03006) == 1


def test_numpys_time_counts_for_page_locked_memory_too() -> None:
    numpy = invent_host_row("numpy", memory="pageable", seconds=0.005)
    rows = [invent_host_row(name) for name in (OURS, "cupy")]
    (contest,) = list_contests([*rows, numpy])
    assert contest.fastest == numpy
    assert contest.find_ratio("numpy") == pytest.approx(2)
    assert list_contests([invent_host_row(OURS), invent_host_row("cublasxt")]) == []


def test_percentiles_are_the_nearest_ranks() -> None:
    assert find_percentile(range(1, 101), 95) == 95
    assert find_percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert find_percentile([7.0], 95) == 7.0


def test_results_are_read_as_they_are_written(tmp_path: Path) -> None:
    file = write_host_results(INVENTED, tmp_path)
    (read,) = read_host_results(tmp_path)
    assert (read.rows, read.regret) == (INVENTED.rows, INVENTED.regret)
    change_document(file, lambda document: document["hardware"].update(gpu=None))
    assert read_host_results(tmp_path) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda document: document.pop("rows"), "host-abacus.json: lacks 'rows'"),
        (lambda document: document["rows"][2].pop("seconds"), "HostRow 3 lacks 'seconds'"),
        (lambda document: document["regret"][0].pop("f"), "SweepRow 1 lacks 'f'"),
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
    plot = replace(PLOTS[name], file=tmp_path / "plot.png")
    plot.file.write_bytes(plot.render())
    assert plot.render() == plot.file.read_bytes()
    assert plot.is_current()
    fewer = list_plots(replace(INVENTED, rows=INVENTED.rows[9:], regret=INVENTED.regret[:60]))
    assert not replace(fewer[name], file=plot.file).is_current()


def test_older_files_name_all_their_commits_and_leave_held_contests_out(tmp_path: Path) -> None:
    file = write_host_results(INVENTED, tmp_path)

    def make_older(document: Any) -> None:
        for row in document["rows"]:
            row["contender"] = row.pop("baseline")
            row |= {"sms": 132, "commit": "older"}
        document["rows"][0]["sms"] = 8

    change_document(file, make_older)
    read = read_host_file(file)
    assert read.rows == INVENTED.rows[1:]
    assert read.caption.endswith("commit abc, older")
