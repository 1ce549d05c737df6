"""Health and metrics of a real service."""

import os
import signal

import numpy as np

from tests.server import NPY, RunningServer, encode_npy


def test_a_service_is_live_and_ready(shared_server: RunningServer) -> None:
    assert shared_server.client.get("/healthz/live").json() == {"status": "live"}
    assert shared_server.client.get("/healthz/ready").json() == {"status": "ready"}


def test_without_its_engine_a_service_is_live_but_not_ready(server: RunningServer) -> None:
    os.kill(server.find_engine(), signal.SIGKILL)
    response = server.client.get("/healthz/ready")
    while response.status_code == 200:
        response = server.client.get("/healthz/ready")
    assert response.status_code == 503
    assert list(response.json()["missing"]) == ["engine"]
    assert "retry-after" in response.headers
    assert server.client.get("/healthz/live").status_code == 200
    server.wait_ready()
    assert server.read_metric("wavetrim_engine_restarts_total") == 1


def test_without_its_data_folder_a_service_is_not_ready(server: RunningServer) -> None:
    folder = server.data_dir / "matrices"
    away = folder.rename(server.data_dir / "away")
    response = server.client.get("/healthz/ready")
    assert response.status_code == 503
    assert list(response.json()["missing"]) == ["data_dir"]
    away.rename(folder)
    server.wait_ready(5)


def test_metrics_count_jobs_seconds_bytes_and_requests(server: RunningServer) -> None:
    content = encode_npy(np.ones((30, 40))) + encode_npy(np.ones((40, 50)))
    answer = server.client.post("/v1/matmul", content=content, headers=NPY)
    assert answer.status_code == 200
    response = server.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    for line in (
        'wavetrim_jobs{state="succeeded"} 0.0',
        'wavetrim_products{state="running"} 0.0',
        'wavetrim_jobs_finished_total{state="succeeded"} 1.0',
        'wavetrim_job_seconds_count{part="cpu"} 1.0',
        'wavetrim_job_seconds_count{part="total"} 1.0',
        "wavetrim_queue_depth 0.0",
        f"wavetrim_received_bytes_total {float(len(content))}",
        f"wavetrim_sent_bytes_total {float(len(answer.content))}",
        "wavetrim_predicted_over_measured_count 1.0",
        'wavetrim_http_requests_total{method="POST",route="/v1/matmul",status="200"} 1.0',
    ):
        assert line in lines
