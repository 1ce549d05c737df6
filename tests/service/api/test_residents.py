"""Jobs that share a stored B: it stays on the GPU until its matrix is deleted, and all see it."""

import numpy as np
import pytest

from tests.processes import wait_until

COUNTS = ("limit_bytes", "size_bytes", "operands", "uses", "fetches", "evictions")


def find_residents(server):
    return server.client.get("/v1/devices").json()["residents"]


def test_without_a_gpu_nothing_stays_and_jobs_of_one_b_are_right(server):
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((8, 300), (300, 200)))
    ids = [server.upload(one) for one in (a, b)]
    for _ in range(3):
        done = server.run_job(*ids)
        assert done["plan"]["resident"] is False
        assert np.array_equal(server.download(f"/v1/jobs/{done['id']}/result"), a @ b)
    assert find_residents(server) == []


@pytest.mark.gpu
def test_a_b_of_many_jobs_stays_until_its_matrix_is_deleted(start_server):
    server = start_server(devices="0", arena_bytes=2**30)
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((64, 4096), (4096, 4096)))
    a_id, b_id = server.upload(a), server.upload(b)
    wait_until(lambda: server.read_arena("locked_bytes") > 0, seconds=60)

    def multiply():
        done = server.run_job(a_id, b_id, f=0)
        assert np.array_equal(server.download(f"/v1/jobs/{done['id']}/result"), a @ b)
        return done

    plans = [multiply()["plan"] for _ in range(6)]
    assert plans[0]["resident"] is False
    assert plans[-1]["resident"] is True
    wait_until(lambda: find_residents(server)[0]["operands"] == 1, seconds=10)
    (told,) = find_residents(server)
    assert told["size_bytes"] >= b.nbytes
    for name in COUNTS:
        shown = server.read_metric(f'wavetrim_residents{{gpu="0",what="{name}"}}')
        assert shown == told[name]
    assert server.client.delete(f"/v1/matrices/{b_id}").status_code == 204
    wait_until(lambda: find_residents(server)[0]["size_bytes"] == 0, seconds=10)
    assert find_residents(server)[0]["evictions"] == 0
