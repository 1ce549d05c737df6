"""A wall clock that steps makes nothing old: a real service with a clock of its own."""

import time
from pathlib import Path

import numpy as np
import pytest

from tests.faults.clock import ShiftedClock
from tests.processes import wait_until
from tests.server import RunningServer

YEAR = 365 * 86400
TTL_SECONDS = 3


@pytest.mark.serial
def test_what_is_new_outlives_every_step_of_the_clock_and_then_ages(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    with RunningServer(
        tmp_path / "data",
        prefix=clock.prefix,
        matrix_ttl_seconds=TTL_SECONDS,
        job_ttl_seconds=TTL_SECONDS,
    ) as server:
        for steps, shift in enumerate((YEAR, -YEAR, 0), 1):
            matrix = server.upload(np.ones((3, 3)))
            job = server.client.post("/v1/jobs", json={"a": matrix, "b": matrix}).json()["id"]
            clock.shift(shift)
            wait_until(lambda n=steps: server.read_log().count("clock has stepped") == n, 20)
            began = time.monotonic()
            behind = server.upload(np.ones((3, 3)))  # by the stepped clock
            while time.monotonic() < began + TTL_SECONDS - 1.5:
                time.sleep(0.1)
            for path in (f"matrices/{matrix}", f"jobs/{job}", f"matrices/{behind}"):
                assert server.client.get(f"/v1/{path}").status_code == 200, (shift, path)
        for path in (f"matrices/{matrix}", f"jobs/{job}"):
            wait_until(lambda p=path: server.client.get(f"/v1/{p}").status_code == 404, 30)


def test_a_clock_that_goes_back_before_anybody_looks_leaves_no_old_times(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    with RunningServer(tmp_path / "data", prefix=clock.prefix) as server:
        before = server.client.get(f"/v1/matrices/{server.upload(np.ones((3, 3)))}").json()
        clock.shift(-YEAR)
        matrix = server.upload(np.ones((3, 3)))
        job = server.client.post("/v1/jobs", json={"a": matrix, "b": matrix}).json()["id"]
        ended = server.wait_job(job)
        clock.shift(0)
        after = server.client.get(f"/v1/matrices/{matrix}").json()
        assert after["created_at"] > before["created_at"]
        assert ended["state"] == "succeeded"
        assert before["created_at"] < ended["created_at"] <= ended["finished_at"]
