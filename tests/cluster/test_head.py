"""Ray's head may end: the service goes on by itself, and no job is lost."""

from pathlib import Path

import numpy as np
import pytest

from tests.cluster.local_cluster import start_cluster
from tests.cluster.test_nodes import (
    HEAD_GFLOPS,
    NODE_GFLOPS,
    list_nodes,
    multiply_exactly,
    store_profile_of,
    wait_for_nodes,
)
from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.server import RunningServer
from wavetrim.client import Client


@pytest.mark.slow
def test_jobs_end_right_when_rays_head_is_killed(tmp_path: Path) -> None:
    store_profile_of(tmp_path, gflops=NODE_GFLOPS)
    a, b = make_matrix(1200, 600, "int64", seed=1), make_matrix(600, 500, "int64", seed=2)
    store_profile_of(tmp_path / "data" / "profiles", gflops=HEAD_GFLOPS)
    with (
        start_cluster(1, profile_dir=tmp_path) as cluster,
        RunningServer(tmp_path / "data", ray_address=cluster.address, stall_seconds=5) as server,
        Client(server.url) as client,
    ):
        wait_for_nodes(server, 1)
        stored = client.put(a), client.put(b)
        jobs = [client.submit(*stored) for _ in range(4)]
        wait_until(lambda: any(job.status().progress > 0 for job in jobs))
        cluster.kill_head()
        for job in jobs:
            assert job.wait().state == "succeeded"
            assert np.array_equal(job.result(), multiply_exactly(a, b))
        wait_until(lambda: list_nodes(server) == [], 60)
        again = client.submit(*stored)
        assert again.wait().state == "succeeded"
