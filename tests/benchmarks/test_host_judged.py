"""The bounds of products in host memory, and which figures they are held to."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.results import write_document
from benchmarks.host.baselines.lineup import OURS, PRESET
from benchmarks.host.judged import describe_judgements, judge
from benchmarks.host.judgement import find_percentile, render_judgements
from benchmarks.host.results import list_contests
from tests.benchmarks.host_figures import invent_host_results, invent_host_row

INVENTED = invent_host_results()


def read_cells(text: str, *first: str) -> list[str]:
    """The cells of the first line that begins with these, after them."""
    begin = f"| {' | '.join(first)} |"
    line = next(line for line in text.splitlines() if line.startswith(begin))
    return line.strip("| ").split(" | ")[len(first) :]


def test_every_bound_is_judged() -> None:
    table = render_judgements(judge(INVENTED))
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


def test_learned_predictions_are_judged_once_fifty_products_have_run() -> None:
    def find(products: int) -> float | None:
        settings = {"predicted_seconds": 9.0, "learned_seconds": 1.05, "products_before": products}
        row = replace(invent_host_row(PRESET, seconds=1.0), settings=settings)
        judged = judge(replace(INVENTED, rows=(row,), regret=()))
        (one,) = (one for one in judged if "50 products" in one.what)
        return one.found

    assert find(49) is None
    assert find(50) == pytest.approx(0.05)


def test_a_product_counts_as_slower_beyond_3_percent_and_50_microseconds() -> None:
    def count(ours_seconds: float) -> float | None:
        rows = (invent_host_row(OURS, seconds=ours_seconds), invent_host_row("torch", seconds=1.0))
        return judge(replace(INVENTED, rows=rows, regret=()))[0].found

    assert count(1.03004) == 0
    assert count(1.03006) == 1


def test_numpys_time_counts_for_pinned_memory_too() -> None:
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


def test_a_file_without_rows_says_so_in_place_of_its_bounds(tmp_path: Path) -> None:
    file = tmp_path / "host-abacus.json"
    write_document(file, **INVENTED.document, rows=[], regret=[])
    assert "it has no rows" in describe_judgements(file)
    write_document(file, **INVENTED.document, rows=INVENTED.rows, regret=[])
    assert "| error of predicted seconds, calibrated, median | ≤ 0.03 |" in describe_judgements(
        file
    )
