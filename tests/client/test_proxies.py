"""Proxies that speak for a service that does not answer them: 502 and 504."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.scripted_server import answer, serve_script
from tests.deploy.nginx import run_nginx
from tests.matrices import SLOW, make_matrix
from tests.server import Start
from wavetrim.client import JobStatus, ServiceRefused, ServiceTimeout, ServiceUnreachable

DEVICES = answer(b'{"devices": []}')
BAD_GATEWAY = answer(b"<html>Bad Gateway</html>", 502, Content_Type="text/html")
GATEWAY_TIMEOUT = answer(b"<html>Gateway Time-out</html>", 504, Content_Type="text/html")


def test_a_proxy_that_reaches_no_service_is_asked_again(connect: Callable[..., Any]) -> None:
    with serve_script([BAD_GATEWAY, BAD_GATEWAY, DEVICES]) as url:
        assert connect(url).devices() == {"devices": []}
    assert len(url.requests) == 3


@pytest.mark.parametrize(
    ("reply", "error", "status", "asked"),
    [(BAD_GATEWAY, ServiceUnreachable, 502, 2), (GATEWAY_TIMEOUT, ServiceTimeout, 504, 1)],
    ids=["502", "504"],
)
def test_a_proxys_word_is_that_the_service_does_not_answer(
    connect: Callable[..., Any], reply: bytes, error: type[Exception], status: int, asked: int
) -> None:
    message = f"does not answer: a proxy answers {status}"
    with serve_script([reply]) as url, pytest.raises(error, match=message):
        connect(url, retries=1).devices()
    assert len(url.requests) == asked


def test_the_services_own_504_is_a_refusal(connect: Callable[..., Any]) -> None:
    problem = json.dumps({"title": "The job failed", "detail": "it took too long"}).encode()
    reply = answer(problem, 504, Content_Type="application/problem+json")
    with serve_script([reply]) as url, pytest.raises(ServiceRefused, match="it took too long"):
        connect(url).devices()


@pytest.mark.needs("nginx")
def test_a_wait_behind_nginx_outlasts_a_restart(
    connect: Callable[..., Any], start_server: Start, tmp_path: Path
) -> None:
    restarted = start_server()
    restarted.wait_ready()
    restarter: list[threading.Thread] = []

    def kill_once(status: JobStatus) -> None:
        if not restarter and status.state == "running":
            restarted.kill()
            restarter.append(threading.Thread(target=restarted.restart))
            restarter[0].start()

    folder = tmp_path / "nginx"
    folder.mkdir()
    with run_nginx(folder, f"127.0.0.1:{restarted.port}", buffering=False) as port:
        client = connect(f"http://127.0.0.1:{port}")
        matrix = client.put(make_matrix(SLOW, SLOW, "int64", 13))
        job = client.submit(matrix, matrix)
        assert job.wait(progress=kill_once).state == "succeeded"
        restarter[0].join()
    assert " 502 " in (folder / "access.log").read_text()
