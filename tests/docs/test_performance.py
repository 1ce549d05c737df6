"""docs/performance.md shows what was measured in process, on busy machines and over HTTP."""

import pytest

from benchmarks.common.tables import RESULTS
from benchmarks.host import tables as host
from benchmarks.host.conditions import Condition
from benchmarks.host.results import HostResults, HostRow, read_host_results
from benchmarks.http import tables as http
from benchmarks.http.rows import HttpResults, Row

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
        *("- 1 H100, 16 cores", "- 2 H100, 32 cores"),
        *3 * ("- 1 H200, 16 cores",),
    ]


def make_row(what: str, size: int, clients: int, baseline: str, seconds: float) -> Row:
    return Row(*(what, size, "float32", clients, baseline, seconds, clients / seconds, 0.1, 5, 100))


@pytest.fixture
def over_http() -> HttpResults:
    rows = [
        *(make_row("product", size, 1, "wavetrim", size * 1e-5) for size in (64, 512, 4096)),
        *(make_row("product", 64, 1, name, 2e-3) for name in ("numpy", "wavetrim-lease")),
        *(make_row("product", 64, 16, name, 4e-3) for name in ("numpy", "wavetrim")),
        make_row("job", 4096, 1, "wavetrim", 0.04),
        make_row("job-memory", 4096, 1, "wavetrim", 0.02),
    ]
    hardware = {"gpu": None, "cores": 2, "cpu": "Beads"}
    return HttpResults("cpu", {"hardware": hardware, "commit": "abc"}, tuple(rows))


def test_small_sizes_and_the_largest_are_shown_over_http(over_http: HttpResults) -> None:
    assert http.render_products([over_http]).splitlines()[2:] == [
        "| 2 cores (abc) | 64² | 0.64 | 2 | 2 |  | 4000 | 4000 |",
        "| 2 cores (abc) | 4096² | 41 |  |  |  |  |  |",
    ]


def test_jobs_are_told_with_their_results_on_disk_and_in_memory(over_http: HttpResults) -> None:
    told = "- 2 cores (abc): a job of 4096² takes 40 ms, 20 in memory."
    assert http.render_jobs([over_http]) == told


def test_without_results_the_page_says_so() -> None:
    page = "".join(f"<!-- {x} -->\n<!-- /{x} -->\n" for x in ("http-products", "http-jobs"))
    assert http.fill_page(page, []).count(http.NOT_MEASURED) == 2
