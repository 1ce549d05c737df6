"""A wall clock that steps makes nothing old: a real service with a clock of its own."""

import struct
import subprocess
import time
from pathlib import Path

import numpy as np

from tests.processes import wait_until
from tests.server import RunningServer

YEAR = 365 * 86400
TTL_SECONDS = 6
"""Long enough for a machine that computes other tests meanwhile."""


def test_what_is_new_outlives_every_step_of_the_clock_and_then_ages(tmp_path):
    library, shift = tmp_path / "clock_shift.so", tmp_path / "shift"
    source = Path(__file__).with_name("clock_shift.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    shift.write_bytes(bytes(8))
    with RunningServer(
        tmp_path / "data",
        prefix=("env", f"LD_PRELOAD={library}", f"CLOCK_SHIFT={shift}"),
        matrix_ttl_seconds=TTL_SECONDS,
        job_ttl_seconds=TTL_SECONDS,
    ) as server:
        for seconds in (YEAR, -YEAR, 0):
            matrix = server.upload(np.ones((3, 3)))
            job = server.post_job(matrix, matrix)
            with shift.open("r+b", buffering=0) as file:
                file.write(struct.pack("=q", seconds))
            time.sleep(TTL_SECONDS / 2)  # what is too old is looked for four times in TTL_SECONDS
            for path in (f"matrices/{matrix}", f"jobs/{job}"):
                assert server.client.get(f"/v1/{path}").status_code == 200, (seconds, path)
        for path in (f"matrices/{matrix}", f"jobs/{job}"):
            wait_until(lambda p=path: server.client.get(f"/v1/{p}").status_code == 404, 30)
