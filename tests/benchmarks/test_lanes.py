"""The benchmark of lanes, as far as the CPU alone can tell."""

import json
import subprocess
import sys

from tests.environment import clear_environment


def test_jobs_of_each_choice_of_devices_are_counted():
    command = [sys.executable, "-m", "benchmarks.http.lanes", "--devices", "none"]
    done = subprocess.run(
        [*command, "--jobs", "3", "--size", "64"],
        env=clear_environment(), capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)["rows"]
    assert row["products_per_second"] > 0
    assert row["jobs_by_devices"] == {"cpu": 3}
