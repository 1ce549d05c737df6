"""docs/performance.md shows what was measured in process, on busy machines and over HTTP."""

import pytest

from benchmarks.common.tables import RESULTS
from benchmarks.host import tables as host
from benchmarks.host.conditions import Condition
from benchmarks.host.results import HostResults, HostRow, read_host_results
from benchmarks.http import tables as http
from benchmarks.http.plot import pick_lines
from tests.benchmarks.http_figures import invent_results

OVER_HTTP = invent_results()
PAGE = "".join(f"<!-- {x} -->\n<!-- /{x} -->\n" for x in ("host-times", "host-regret"))


def test_a_line_is_from_the_newest_results_of_a_machine_condition_and_memory() -> None:
    older = make_results("abc", 0.2, "quiet", "busy")
    table = host.render_times([older, make_results("def", 0.05, "quiet")])
    assert table.splitlines()[0] == "NumPy 5.6:"
    assert table.splitlines()[4:] == [
        "| 2 cores (def) | quiet | pageable | 1 | 2.00 | 2.00 | 2.00 | 0 |",
        "| 2 cores (abc) | busy | pageable | 1 | 0.50 | 0.50 | 0.50 | 1 |",
    ]
    assert host.fill_page(PAGE, [], []).count(host.NOT_MEASURED) == 2


def make_results(commit: str, seconds: float, *conditions: Condition) -> HostResults:
    """Ours beside NumPy, which takes 0.1 s."""
    rows = [
        HostRow(*(64, 64, 64, "float32", "pageable", name), taken, turns=3, condition=condition)
        for condition in conditions
        for name, taken in (("wavetrim", seconds), ("numpy", 0.1))
    ]
    hardware = {"gpu": None, "cores": 2, "cpu": "Beads"}
    document = {"hardware": hardware, "versions": {"numpy": "5.6"}, "commit": commit}
    return HostResults(document, tuple(rows))


def test_sweeps_are_summed_up_by_their_percentiles() -> None:
    lines = host.render_regret(read_host_results(RESULTS)).splitlines()
    assert [line.split(":")[0].split(" (")[0] for line in lines] == [
        "- 1 H100, 16 cores", "- 2 H100, 32 cores", "- 1 H200, 16 cores",
    ]  # fmt: skip


def test_small_sizes_and_the_largest_are_shown_over_http() -> None:
    lines = http.render_products([OVER_HTTP]).splitlines()[2:]
    assert [[x.strip() for x in line.strip("|").split("|")][1:] for line in lines] == [
        ["64²", "1", "1.2", "0.8", "2", "5", "6", "13333", "8000"],
        ["4096²", "64", "76.8", "51.2", "128", "320", "384", "", ""],
    ]
    assert lines[0].startswith("| ABACUS, 16 cores (abc) |")
    assert "| 2 cores (abc) |" in http.render_products([invent_results(gpu=False)])


def test_transfers_and_jobs_are_told_beside_what_bounds_them() -> None:
    assert http.render_bytes([OVER_HTTP]) == (
        "- ABACUS, 16 cores (abc): upload 2.68 GB/s (bare server 3.58), download 5.37 GB/s "
        "(bare server 5.65), a job of 4096² 40 ms (the product by itself 5)."
    )


def test_without_results_the_page_says_so() -> None:
    page = "".join(f"<!-- {x} -->\n<!-- /{x} -->\n" for x in ("http-products", "http-bytes"))
    assert http.fill_page(page, []).count(http.NOT_MEASURED) == 2


def test_the_plot_shows_the_floor_of_each_size() -> None:
    floor = pick_lines(OVER_HTTP)["floor"]
    assert floor == [(64, pytest.approx(1.0)), (4096, pytest.approx(64.0))]
