"""What survives what: the engine or the service killed in the middle of a job, and SIGTERM."""

import os
import signal
import sqlite3
import time
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from tests.matrices import make_matrix
from tests.processes import is_gone, wait_until
from tests.server import NPY

SIZE = 1000
"""A square of int64 matrices of this size takes the better part of a second on one core."""


@pytest.fixture
def slow():
    return make_matrix(SIZE, SIZE, "int64", seed=1)


def post(running, a, **options):
    response = running.client.post("/v1/jobs", json={"a": a, "b": a, **options})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def get(running, job_id):
    job: dict[str, Any] = running.client.get(f"/v1/jobs/{job_id}").json()
    return job


def wait_for_progress(running, job_id):
    wait_until(lambda: get(running, job_id)["progress"] > 0, 60)


def wait_for_written_try(running, job_id):
    """Wait until a try is in the database: it is counted then, whatever becomes of the service."""

    def is_written():
        with closing(sqlite3.connect(running.data_dir / "wavetrim.db")) as database:
            (attempts,) = database.execute(
                "SELECT attempts FROM jobs WHERE id = ?", (job_id,)
            ).fetchone()
        return bool(attempts == 1)

    wait_until(is_written, 60)


def expect_product(running, job_id, a, *, attempts):
    """The job succeeds in this number of tries, and its product is right."""
    job = running.wait_job(job_id)
    assert (job["state"], job["attempts"], job["error"]) == ("succeeded", attempts, None)
    product = running.download(f"/v1/jobs/{job_id}/result")
    assert product.shape == a.shape
    rows = slice(None, None, max(1, len(a) // 5))
    assert np.array_equal(product[rows], a[rows] @ a)


def test_killing_the_engine_costs_one_try_and_no_answer(start_server, slow):
    running = start_server()
    a = running.upload(slow)
    job_id = post(running, a)
    wait_for_progress(running, job_id)
    engine = running.find_engine()
    os.kill(engine, signal.SIGKILL)
    for _ in range(20):
        assert running.client.get("/healthz/live").status_code == 200
        assert get(running, job_id)["state"] == "running"
        time.sleep(0.01)
    expect_product(running, job_id, slow, attempts=2)
    assert running.find_engine() != engine
    assert running.read_metric("wavetrim_engine_restarts_total") == 1


def test_killing_the_service_loses_no_job_and_leaves_no_engine(start_server, slow):
    running = start_server()
    small = make_matrix(9, 9, "int64", seed=2)
    a, b = running.upload(slow), running.upload(small)
    interrupted, queued = post(running, a), post(running, b)
    wait_for_written_try(running, interrupted)
    engine = running.find_engine()
    running.kill()
    wait_until(lambda: is_gone(engine), 5)
    assert any(name.endswith(".part") for name in running.list_matrix_files())
    running.restart()
    assert get(running, interrupted)["result"] is None
    expect_product(running, interrupted, slow, attempts=2)
    expect_product(running, queued, small, attempts=1)
    results = {get(running, job_id)["result"] for job_id in (interrupted, queued)}
    assert running.list_matrix_files() == {f"{name}.npy" for name in results | {a, b}}


def test_sigterm_lets_the_running_job_end_and_keeps_the_queued_ones(start_server):
    running = start_server()
    # It goes on for longer than it takes to be refused and to look.
    slow, small = (make_matrix(size, size, "int64", seed=1) for size in (1400, 9))
    a = running.upload(slow)
    job_ids = [post(running, a), post(running, running.upload(small))]
    wait_for_progress(running, job_ids[0])
    engine = running.find_engine()
    running.terminate()
    refused = wait_for_refusal(running, a)
    assert refused.status_code == 503
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["type"] == "urn:wavetrim:problem:draining"
    product = running.client.post("/v1/matmul", content=b"", headers=NPY)
    assert (product.status_code, product.json()["type"]) == (503, refused.json()["type"])
    assert running.client.get("/healthz/live").status_code == 200
    assert running.client.get("/healthz/ready").status_code == 503
    assert get(running, job_ids[0])["state"] == "running"
    running.client.close()
    assert running.process.wait(30) == 0
    assert is_gone(engine)
    running.restart()
    assert get(running, job_ids[0])["state"] == "succeeded"
    expect_product(running, job_ids[0], slow, attempts=1)
    expect_product(running, job_ids[1], small, attempts=1)


def wait_for_refusal(running, a):
    """The first POST that is not taken any more; those before it are cancelled again."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        response = running.client.post("/v1/jobs", json={"a": a, "b": a})
        if response.status_code != 202:
            return response
        running.client.delete(f"/v1/jobs/{response.json()['id']}")
    raise AssertionError("the service went on taking jobs")


def test_a_second_signal_leaves_the_job_to_the_next_start(start_server):
    running = start_server()
    job_id = post(running, running.upload(make_matrix(1500, 1500, "int64", seed=1)))
    wait_for_progress(running, job_id)
    engine = running.find_engine()
    running.terminate()
    wait_until(lambda: running.client.get("/healthz/ready").status_code == 503, 5)
    running.process.send_signal(signal.SIGINT)
    running.client.close()
    assert running.process.wait(10) == 0
    assert is_gone(engine)
    assert not any(name.endswith(".part") for name in running.list_matrix_files())
    running.restart()
    wait_for_progress(running, job_id)
    assert get(running, job_id)["attempts"] == 1
    running.client.delete(f"/v1/jobs/{job_id}")


def test_a_cancel_outlives_a_kill_of_the_service(start_server, slow):
    """The engine hears nothing, so that the cancel is open then; it is killed with the service."""
    running = start_server()
    job_id = post(running, running.upload(slow))
    wait_for_progress(running, job_id)
    engine = running.find_engine()
    os.kill(engine, signal.SIGSTOP)
    assert running.client.delete(f"/v1/jobs/{job_id}").status_code == 202
    running.kill()
    wait_until(lambda: is_gone(engine), 5)
    running.restart()
    wait_until(lambda: get(running, job_id)["state"] == "cancelled", 10)
