"""docs/operations.md: what it names is there, what it shows was measured, its commands work."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np

from benchmarks.common.tables import ROOT
from benchmarks.faults import count_tries, sum_up
from benchmarks.readme import OPERATIONS
from tests.faults.catalog import FAULTS, SIGNALS
from tests.faults.ledger import Outcome
from tests.server import RunningServer
from wavetrim.service.settings import Settings

SOURCES = ("metrics", "gauges")
PAGE = OPERATIONS.read_text(encoding="utf-8")


def test_every_test_setting_metric_and_link_named_exists() -> None:
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in tests]
    files = re.findall(r"`(tests/\w+\.py)`", PAGE)
    links = re.findall(r"\]\((?!http)([^)#]+)", PAGE)
    there = [*(ROOT / file for file in files), *(OPERATIONS.parent / link for link in links)]
    assert not [path for path in there if not path.exists()]
    settings = {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"WAVETRIM_[A-Z_]+", PAGE)) <= settings
    metrics = "".join((ROOT / "service" / f"{name}.py").read_text() for name in SOURCES)
    for name in re.findall(r"`(wavetrim_\w+?)(?:_total)?[`{]", PAGE):
        assert f'"{name}"' in metrics


def test_tries_are_counted_and_summed_up() -> None:
    counts = {name: count_tries(name, 200) for name in FAULTS}
    assert sum(counts[name] for name in SIGNALS) == 200
    assert min(counts.values()) > 0
    found = [Outcome(accepted=3, lost=1, seconds=2.0), Outcome(accepted=4, failed=1, seconds=4.0)]
    row = sum_up(found)
    assert (row["accepted"], row["lost"], row["damaged"], row["failed"]) == (7, 1, 0, 1)
    assert (row["median_seconds"], row["worst_seconds"], row["spread"]) == (3, 4, 0.667)
    assert sum_up([])["worst_seconds"] is None


def find_commands(title: str) -> str:
    """The shell's commands of a section."""
    section = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]


def run(title: str, data: Path, backup: Path) -> None:
    environment = {**os.environ, "DATA": str(data), "BACKUP": str(backup)}
    subprocess.run(["sh", "-ec", find_commands(title)], env=environment, check=True)


def test_a_backup_made_while_the_service_runs_is_restored_into_another_folder(
    tmp_path: Path,
) -> None:
    running = RunningServer(tmp_path / "data")
    array = np.arange(12.0).reshape(3, 4)
    try:
        matrix = running.upload(array)
        body = {"a": matrix, "b": running.upload(array.T.copy())}
        job = running.client.post("/v1/jobs", json=body).json()["id"]
        done = running.client.get(f"/v1/jobs/{job}?wait_seconds=60").json()
        run("To back up", running.data_dir, tmp_path / "backup")
        later = running.upload(array + 1)
    finally:
        running.kill()
    run("To restore", tmp_path / "moved", tmp_path / "backup")
    restored = RunningServer(tmp_path / "moved")
    try:
        assert restored.client.get(f"/v1/jobs/{job}").json() == done
        product = restored.download(f"/v1/jobs/{job}/result")
        assert np.array_equal(product, array @ array.T)
        assert np.array_equal(restored.download(f"/v1/matrices/{matrix}/data"), array)
        assert restored.client.get(f"/v1/matrices/{later}").status_code == 404
        assert "wavetrim_lost_files 0.0\n" in restored.client.get("/metrics").text
    finally:
        restored.stop()
