"""The benchmark over HTTP: its clients catch wrong answers, and one small run with real servers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.common.results import Results
from benchmarks.http.rows import Case, Row, find_case, read_http_results
from tests.environment import ROOT
from tests.limit import allow


def run(out: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.http", "--out", str(out), *arguments],
        cwd=ROOT,
        env={**os.environ, "WAVETRIM_DEVICES": "none", **variables},
        capture_output=True,
        text=True,
        timeout=allow(200),
        check=False,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results[Row]:
    """One small run on this machine's CPU, repeated with more time until all is measured."""
    out = tmp_path_factory.mktemp("out")
    for seconds in ("2", "30", "90"):  # a busy machine needs more
        ran = run(out, "--sizes", "16", "--clients", "1", "4", "--seconds", seconds)
        assert ran.returncode == 0, ran.stderr
        if "time ran out" not in ran.stdout:
            break
    return read_http_results(out)[0]


@pytest.mark.slow
def test_a_run_lets_the_service_a_lease_and_the_peer_take_turns(results: Results[Row]) -> None:
    assert results.document["left_out"] == []
    alone, four = (find_case(results, Case(16, "float32", n)) for n in (1, 4))
    assert set(four) == {"wavetrim", "numpy"}
    assert set(alone) == {*four, "wavetrim-lease"}
    for row in (*alone.values(), *four.values()):
        assert row.requests >= row.rounds >= 1
        assert min(row.p50_seconds, row.rate) > 0
