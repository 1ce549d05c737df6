"""Several services: each with its own data folder and database, on one PostgreSQL server."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.matrices import make_matrix
from wavetrim.client import Client


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
