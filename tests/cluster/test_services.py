"""Several services on one PostgreSQL server, and one whose own GPUs work beside a node."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.cluster.local_cluster import start_cluster
from tests.host_gpus import write_sitecustomize
from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.server import RunningServer
from wavetrim.client import Client

ROWS = 1000


def test_two_services_on_one_postgresql_do_not_get_in_each_others_way(start_server, postgres):
    servers = [start_server(database_url=postgres.create_database()) for _ in range(2)]
    a = make_matrix(90, 90, "float64", seed=1)

    def use(server):
        with Client(server.url) as client:
            stored = client.put(a)
            jobs = [client.submit(stored, stored) for _ in range(20)]
            for job in jobs:
                assert job.wait().state == "succeeded"
            assert np.allclose(jobs[-1].result(), a @ a)
            return [status.id for status in client.jobs()]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(use, servers)
    assert (len(first), len(second)) == (20, 20)
    assert not set(first) & set(second)


def list_busy(server):
    lanes = server.client.get("/v1/devices").json()["lanes"]
    return {lane["device"] for lane in lanes if lane["busy_seconds"]}


@pytest.mark.slow
def test_two_gpus_beside_a_node_work_at_two_jobs(tmp_path):
    """Jobs that name F stay on the service's machine; its GPUs compute in host memory."""
    modules = write_sitecustomize(tmp_path, row_seconds=2.0 / ROWS)
    a, b = make_matrix(ROWS, 2000, "float32", seed=1), make_matrix(2000, 2000, "float32", seed=2)
    with (
        start_cluster(1) as cluster,
        RunningServer(
            tmp_path / "data", modules=modules, devices="0,1", ray_address=cluster.address
        ) as server,
        Client(server.url) as client,
    ):
        wait_until(lambda: len(server.client.get("/v1/devices").json()["nodes"]) == 1, 60)
        stored = client.put(a), client.put(b)
        jobs = [client.submit(*stored, f=0) for _ in range(2)]
        wait_until(lambda: list_busy(server) == {"cuda:0", "cuda:1"})
        for job in jobs:
            assert (job.wait().plan or {}).get("node") is None
            assert np.allclose(job.result(), a @ b, atol=1e-2)
