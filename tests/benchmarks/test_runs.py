"""Small runs of the benchmarks over HTTP, of jobs and of kernels, with real servers and GPUs."""

import pytest

from benchmarks.http.rows import Case, find_case, read_http_results
from benchmarks.jobs.rows import read_jobs_results
from benchmarks.jobs.trace import LOADS
from benchmarks.kernels.contest import LEAST_TURNS
from benchmarks.kernels.rows import read_kernel_results
from tests.processes import run_benchmark


@pytest.mark.slow
def test_the_service_a_lease_and_the_peer_take_turns(tmp_path):
    small = ("--sizes", "16", "--clients", "1", "4")
    for seconds in ("2", "30", "90"):  # a busy machine needs more
        told = run_benchmark(
            "http", tmp_path, *small, "--seconds", seconds, WAVETRIM_DEVICES="none"
        )
        if "no time is left" not in told:
            break
    (results,) = read_http_results(tmp_path)
    assert results.document["left_out"] == []
    alone, four = (find_case(results, Case(16, "float32", n)) for n in (1, 4))
    assert set(four) == {"wavetrim", "numpy"}
    assert set(alone) == {*four, "wavetrim-lease"}
    for row in (*alone.values(), *four.values()):
        assert row.requests >= row.rounds >= 1
        assert min(row.p50_seconds, row.rate) > 0


@pytest.mark.slow
def test_loads_a_flood_rates_and_lists_of_jobs_are_measured(tmp_path):
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


@pytest.mark.gpu
def test_kernels_have_rows_beside_cublas(tmp_path):
    run_benchmark("kernels", tmp_path, "--shapes", "512x512x512")
    (results,) = read_kernel_results(tmp_path)
    assert results.document["left_out"] == []
    assert {"naive", "register", "cublas"} <= {row.kernel for row in results.rows}
    assert all(row.tflops > 0 and row.turns >= LEAST_TURNS for row in results.rows)
