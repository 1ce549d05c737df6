"""docs/performance.md shows what was measured in process, on busy machines and over HTTP."""

from dataclasses import replace

import pytest

from benchmarks.common.tables import render_table
from benchmarks.host import tables as host
from benchmarks.http import tables as http
from benchmarks.http.plot import pick_lines
from tests.benchmarks.host_figures import invent_host_results
from tests.benchmarks.http_figures import invent_results
from tests.benchmarks.test_several import invent_results as invent_several

IN_PROCESS, OVER_HTTP = invent_host_results(), invent_results()


def test_a_line_has_the_means_of_a_machine_and_a_kind_of_memory() -> None:
    table = host.render_times([IN_PROCESS, invent_several()])
    speeds = ["5.00"] * 6
    assert table.splitlines()[0] == "CuPy 3.4, NumPy 5.6:"
    assert table.splitlines()[2:] == render_table(
        host.HEAD,
        [
            ["1 ABACUS, 16 cores (abc)", "pageable", "102", "95%", *speeds, "0", "2%"],
            ["1 ABACUS, 16 cores (abc)", "page-locked", "102", "95%", *speeds, "0", "2%"],
            ["2 ABACUS, 16 cores (abc)", "page-locked", "52", "95%", "1.20", "", "", "", "2.00",
             "", "", "5%"],
        ],
    ).splitlines()  # fmt: skip


def test_a_product_that_is_slower_than_the_fastest_is_counted() -> None:
    rows = [
        replace(row, seconds=0.1) if row.baseline == "wavetrim" and row.is_cube else row
        for row in IN_PROCESS.rows
    ]
    cubes = sum(row.seconds == 0.1 and row.memory == "pinned" for row in rows)
    line = host.render_times([replace(IN_PROCESS, rows=tuple(rows))]).splitlines()[-1]
    assert line.split(" | ")[-2] == str(cubes)


def test_sweeps_are_summed_up_by_their_percentiles() -> None:
    assert host.render_regret([IN_PROCESS]) == (
        "- 1 ABACUS, 16 cores (abc): 1.010 in the median of 208 sweeps, 1.010 at the 95th "
        "percentile, 1.01 at worst."
    )


def test_a_run_appears_in_the_sections_that_it_measured() -> None:
    page = "".join(f"<!-- {x} -->\n<!-- /{x} -->\n" for x in ("host-times", "host-regret"))
    contests, sweeps = replace(IN_PROCESS, regret=()), replace(IN_PROCESS, rows=())
    assert host.fill_page(page, [contests, sweeps]).count("1 ABACUS") == 3
    assert host.fill_page(page, []).count(host.NOT_MEASURED) == 2


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
