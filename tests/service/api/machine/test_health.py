"""Health and metrics of a real service."""

import os
import platform
import re
import signal

import numpy as np
import pytest

from tests.processes import wait_until
from tests.server import NPY, encode_npy
from wavetrim.service.settings import Settings
from wavetrim.service.version import find_version


def test_a_service_is_live_and_ready(shared_server):
    assert shared_server.client.get("/healthz/live").json() == {"status": "live"}
    assert shared_server.client.get("/healthz/ready").json() == {"status": "ready"}


def test_without_its_engine_a_service_is_live_but_not_ready(server):
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


def test_without_its_data_folder_a_service_is_not_ready(server):
    folder = server.data_dir / "matrices"
    away = folder.rename(server.data_dir / "away")
    response = server.client.get("/healthz/ready")
    assert response.status_code == 503
    assert list(response.json()["missing"]) == ["data_dir"]
    away.rename(folder)
    server.wait_ready(5)


def test_metrics_count_jobs_seconds_bytes_and_requests(server):
    content = encode_npy(np.ones((30, 40))) + encode_npy(np.ones((40, 50)))
    answer = server.client.post("/v1/matmul", content=content, headers=NPY)
    assert answer.status_code == 200
    response = server.client.get("/metrics")
    python = platform.python_version()
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    assert server.read_metric("wavetrim_free_bytes") > 0
    assert server.read_metric("process_resident_memory_bytes") > 2**20
    assert server.read_metric("wavetrim_engine_process_resident_memory_bytes") > 2**20
    assert "wavetrim_gpu_clock_mhz{" not in response.text
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
        'wavetrim_http_request_seconds_count{method="POST",route="/v1/matmul"} 1.0',
        'wavetrim_queue_seconds_count{queue="lane"} 1.0',
        'wavetrim_product_size_bucket{le="64.0"} 1.0',
        'wavetrim_product_size_bucket{le="32.0"} 0.0',
        f'wavetrim_limit{{what="queued_jobs"}} {Settings().max_queued_jobs}.0',
        f'wavetrim_build_info{{python="{python}",version="{find_version()}"}} 1.0',
        "wavetrim_database_up 1.0",
        "wavetrim_engine_ready 1.0",
        "wavetrim_degraded 0.0",
        "wavetrim_bytes_in_flight 0.0",
    ):
        assert line in lines


def test_odd_methods_make_no_metrics_of_their_own(server):
    for method in ("PROPFIND", "MKCOL"):
        assert server.client.request(method, "/v1/jobs").status_code == 405
    text = server.client.get("/metrics").text
    assert 'method="other"' in text
    assert "PROPFIND" not in text


def test_head_counts_as_a_request_of_its_route(server):
    assert server.client.head("/v1/devices").status_code == 200
    name = 'wavetrim_http_requests_total{method="HEAD",route="/v1/devices",status="200"}'
    wait_until(lambda: name in server.client.get("/metrics").text)


@pytest.mark.gpu
def test_metrics_show_what_the_driver_tells_of_each_gpu(start_server):
    server = start_server(devices="0")
    wait_until(lambda: 'wavetrim_gpu_clock_mhz{gpu="0"}' in server.client.get("/metrics").text)
    used = server.read_metric('wavetrim_gpu_memory_used_bytes{gpu="0"}')
    (total,) = re.findall(
        r'^wavetrim_gpu_memory_bytes\{gpu="0",name="[^"]+"\} (.+)$',
        server.client.get("/metrics").text, re.MULTILINE,
    )  # fmt: skip
    assert 2**20 < used <= float(total)
    for name in ("clock_mhz", "memory_clock_mhz", "temperature_celsius", "power_watts"):
        assert 1 < server.read_metric(f'wavetrim_gpu_{name}{{gpu="0"}}') < 20_000
