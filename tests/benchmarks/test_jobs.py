"""The benchmark of jobs: its traces, what it makes of answers about ends, and one small run."""

import pytest

from benchmarks.jobs.rows import read_jobs_results
from benchmarks.jobs.trace import LOADS
from tests.processes import run_benchmark


@pytest.mark.slow
def test_a_run_measures_loads_a_flood_rates_and_lists(tmp_path):
    small = ("--sizes", "16", "32", "64", "--jobs", "20", "--repeats", "8", "--name", "this")
    run_benchmark("jobs", tmp_path, *small, WAVETRIM_DEVICES="none")
    (results,) = read_jobs_results(tmp_path)
    rows = {(row.what, row.group, row.load): row for row in results.rows}
    assert {row.policy for row in results.rows} == {"this", "in process"}
    for load in LOADS:
        assert rows["load", "all", load].jobs == 20
    for kind in (("flood", "victims"), ("behind", "short ones"), ("rate", "disk")):
        assert rows[(*kind, None)].p50_seconds > 0
    for group in ("one list", "one by one", "in process"):
        assert rows["list", group, None].rate > 0
