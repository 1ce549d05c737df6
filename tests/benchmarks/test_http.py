"""The benchmark over HTTP: its clients catch wrong answers, and one small run with real servers."""

import pytest

from benchmarks.http.rows import Case, find_case, read_http_results
from tests.processes import run_benchmark


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One small run on this machine's CPU, repeated with more time until all is measured."""
    out, small = tmp_path_factory.mktemp("out"), ("--sizes", "16", "--clients", "1", "4")
    for seconds in ("2", "30", "90"):  # a busy machine needs more
        told = run_benchmark("http", out, *small, "--seconds", seconds, WAVETRIM_DEVICES="none")
        if "no time is left" not in told:
            break
    return read_http_results(out)[0]


@pytest.mark.slow
def test_a_run_lets_the_service_a_lease_and_the_peer_take_turns(results):
    assert results.document["left_out"] == []
    alone, four = (find_case(results, Case(16, "float32", n)) for n in (1, 4))
    assert set(four) == {"wavetrim", "numpy"}
    assert set(alone) == {*four, "wavetrim-lease"}
    for row in (*alone.values(), *four.values()):
        assert row.requests >= row.rounds >= 1
        assert min(row.p50_seconds, row.rate) > 0
