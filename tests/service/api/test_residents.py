"""Jobs that share a stored B: it stays on the GPU until its matrix is deleted, and all see it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.host_gpus import write_sitecustomize
from tests.processes import wait_until
from tests.server import RunningServer, Start
from wavetrim.service.telemetry.metrics import Metrics

COUNTS = ("limit_bytes", "size_bytes", "operands", "uses", "fetches", "evictions")


def find_residents(server: RunningServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.client.get("/v1/devices").json()["residents"]
    return found


def test_without_a_gpu_nothing_stays_and_jobs_of_one_b_are_right(server: RunningServer) -> None:
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((8, 300), (300, 200)))
    ids = [server.upload(one) for one in (a, b)]
    for _ in range(3):
        job = server.client.post("/v1/jobs", json={"a": ids[0], "b": ids[1]}).json()
        done = server.wait_job(job["id"])
        assert done["plan"]["resident"] is False
        assert np.array_equal(server.download(f"/v1/jobs/{job['id']}/result"), a @ b)
    assert find_residents(server) == []


def test_a_plan_may_suppose_that_b_is_there(server: RunningServer) -> None:
    query = {"m": 64, "n": 8192, "k": 8192, "memory": "pinned", "device": "H200", "f": 0}
    plain, there = (
        server.client.get("/v1/plan", params={**query, "resident": resident}).json()
        for resident in (False, True)
    )
    assert (plain["resident"], there["resident"]) == (False, True)
    assert 4 * there["predicted"]["total_seconds"] < plain["predicted"]["total_seconds"]
    refused = server.client.get(
        "/v1/plan", params={**query, "n": 10**6, "k": 10**6, "resident": True}
    )
    assert (refused.status_code, refused.json()["field"]) == (422, "resident")


def test_metrics_show_what_the_engine_tells_and_nothing_once_it_is_gone() -> None:
    metrics = Metrics()
    told = {"index": 1, **{name: number for number, name in enumerate(COUNTS)}}
    metrics.gauges.show_residents([told])
    assert b'wavetrim_residents{gpu="1",what="evictions"} 5.0' in metrics.render()
    metrics.gauges.show_residents([])
    assert b"wavetrim_residents{" not in metrics.render()


def test_a_job_goes_to_the_gpu_on_which_its_b_is(tmp_path: Path) -> None:
    """Two GPUs that compute in host memory; B is brought to the second by jobs that name it."""
    modules = write_sitecustomize(tmp_path, row_seconds=1e-5, resident_bytes=2**28)
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((300, 2000), (2000, 2000)))
    with RunningServer(
        tmp_path / "data", modules=modules, devices="0,1",
        arena_bytes=2**28, arena_slab_bytes=2**27,
    ) as server:  # fmt: skip
        request = {"a": server.upload(a), "b": server.upload(b), "f": 0}

        def multiply(**options: Any) -> tuple[str, bool]:
            job = server.client.post("/v1/jobs", json={**request, **options}).json()
            done = server.wait_job(job["id"])
            assert done["state"] == "succeeded", done
            assert np.array_equal(server.download(f"/v1/jobs/{job['id']}/result"), a @ b)
            (device,) = done["plan"]["devices"]
            return device["device"], done["plan"]["resident"]

        assert multiply() == ("cuda:0", False)
        assert any(multiply(devices="1")[1] for _ in range(9))
        assert multiply() == ("cuda:1", True)
        wait_until(lambda: [one["operands"] for one in find_residents(server)] == [0, 1])


@pytest.mark.gpu
def test_a_b_of_many_jobs_stays_until_its_matrix_is_deleted(start_server: Start) -> None:
    server = start_server(devices="0", arena_bytes=2**30)
    server.wait_ready()
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((64, 4096), (4096, 4096)))
    a_id, b_id = server.upload(a), server.upload(b)
    wait_until(lambda: server.read_metric('wavetrim_arena{what="locked_bytes"}') > 0, seconds=60)

    def multiply() -> dict[str, Any]:
        job = server.client.post("/v1/jobs", json={"a": a_id, "b": b_id, "f": 0}).json()
        done = server.wait_job(job["id"])
        assert done["state"] == "succeeded", done
        assert np.array_equal(server.download(f"/v1/jobs/{job['id']}/result"), a @ b)
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
