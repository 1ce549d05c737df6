"""The benchmark of jobs: its decisions, and one small run of it with a real service."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import jobs
from benchmarks.executor_process import ExecutorFailed, ExecutorProcess
from wavetrim.scheduler.profile import find_profile

ROOT = Path(__file__).parents[1]


@pytest.fixture
def profile_file(tmp_path: Path) -> Path:
    """An estimate of this machine in a results file, as another benchmark writes it."""
    profile = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"rows": [], "profile": profile.as_dict()}))
    return path


def test_a_run_has_jobs_and_the_executor_take_turns_with_one_profile(
    tmp_path: Path, profile_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVETRIM_DEVICES", "none")
    out = tmp_path / "out" / "jobs.json"
    arguments = [
        "--shapes", "70x50x30", "--seconds", "1", "--profile", str(profile_file),
        "--folder", str(tmp_path), "--out", str(out),
    ]  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.jobs", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    document = json.loads(out.read_text())
    assert {"hardware", "versions", "commit", "profile", "rows"} <= set(document)
    assert [row["dtype"] for row in document["rows"]] == ["float32", "float64"]
    for row in document["rows"]:
        assert (row["m"], row["n"], row["k"]) == (70, 50, 30)
        assert (row["f"], row["f_actual"], row["executor_f_actual"]) == (70, 70, 70)
        assert row["turns"] >= jobs.LEAST_TURNS
        assert row["ratio"] == row["job_total_seconds"] / row["executor_total_seconds"]
        assert 0 <= row["map_seconds"] < row["wall_seconds"]
        for name in ("job_total", "executor_total", "executor_again", "wall", "map"):
            low, high = row[f"{name}_quartiles_seconds"]
            # Operands in the arena have their pages: to map them takes nothing.
            assert name == "map" or low > 0
            assert low <= row[f"{name}_seconds"] <= high
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "results.json"]


def test_a_file_without_a_profile_is_refused_in_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVETRIM_DEVICES", "none")
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ExecutorFailed, match="has ended"):
        ExecutorProcess(tmp_path, tmp_path / "results.json")
    assert "profile" in capfd.readouterr().err


def test_sides_take_turns_and_each_begins_as_often_as_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "PAUSE_SECONDS", 0.0)
    seen: list[str] = []
    sides = [lambda: seen.append("job"), lambda: seen.append("executor")]
    assert jobs.take_turns(sides, time.perf_counter() - 1) == 3
    assert seen == ["job", "executor", "executor", "job", "job", "executor"]
    assert jobs.take_turns(sides, time.perf_counter() + 60) == jobs.MOST_TURNS


def test_time_is_shared_by_bytes_and_none_is_left_over() -> None:
    small, large = ((1024,) * 3, "float32"), ((8192,) * 3, "float64")
    first = jobs.share_time(90.0, [small, large])
    assert 0 < first < 20
    assert jobs.share_time(90.0 - first, [large]) == pytest.approx(90.0 - first)
    assert jobs.share_time(-1.0, [large]) == 0.0
