"""What callers may ask of the service's connections and bodies, with a key and without one."""

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.faults.limits import FEW_DESCRIPTORS
from tests.limit import allow
from tests.server import RunningServer, encode_npy
from tests.service.api.wire.wire_server import make_certificate, make_head, read_answer

KEY = "a-key-of-these-tests"
JSON = "application/json"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
AUTHORIZED = f"Authorization: Bearer {KEY}"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("locked")
    with RunningServer(folder / "data", api_key=KEY, unix_socket=folder / "socket") as running:
        yield running


def connect(server: RunningServer, way: str = "tcp") -> socket.socket:
    if way == "tcp":
        return socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(server.settings["unix_socket"]))
    return connection


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_the_key_is_asked_for_before_any_byte_of_a_body(locked: RunningServer, way: str) -> None:
    paths = {"/v1/matmul": JSON, "/v1/matrices": "application/x-npy"}
    paths |= dict.fromkeys(("/v1/jobs", "/v1/leases", "/v1/none"), JSON)
    for path, content_type in paths.items():
        with connect(locked, way) as connection:
            began = time.monotonic()
            connection.sendall(make_head(path, 300, content_type=content_type))
            assert read_answer(connection)[0] == 401, path
            assert time.monotonic() - began < allow(5)


def test_a_json_body_that_trickles_is_late_and_the_caller_is_told(locked: RunningServer) -> None:
    def trickle(way: str, path: str, count: int | None) -> tuple[float, int, bytes]:
        lines = [AUTHORIZED, *(["Transfer-Encoding: chunked"] if count is None else [])]
        with connect(locked, way) as connection:
            connection.sendall(make_head(path, count, *lines, content_type=JSON))
            began = time.monotonic()
            while time.monotonic() < began + 9:
                connection.sendall(b" " if count else b"1\r\n \r\n")
                time.sleep(0.5)
            status, problem = read_answer(connection)
            return time.monotonic() - began, status, problem

    with ThreadPoolExecutor() as pool:
        tcp = pool.submit(trickle, "tcp", "/v1/jobs", 300)
        chunked = pool.submit(trickle, "tcp", "/v1/jobs", None)
        unix = pool.submit(trickle, "unix", "/v1/matmul", 300)
    for seconds, status, problem in (tcp.result(), chunked.result(), unix.result()):
        assert 9.5 < seconds < allow(15)
        assert status == 408
        assert b'"field": "body"' in problem
        assert b'"limit": "complete within 10 s"' in problem


def test_silent_connections_do_not_lock_others_out_at_64_descriptors(tmp_path: Path) -> None:
    settings = {"prefix": FEW_DESCRIPTORS, "unix_socket": tmp_path / "socket"}
    array = np.eye(300)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data", **settings))
        for _ in range(2):
            silent = [
                stack.enter_context(connect(server, way))
                for way in ("tcp", "unix")
                for _ in range(40)
            ]
            # A caller that was connected before does not feel it; database and engine work.
            matrix = server.upload(array)
            body = {"a": matrix, "b": matrix}
            job = server.client.post("/v1/jobs", json=body).json()["id"]
            done = server.wait_job(job)
            assert done["state"] == "succeeded", done
            for way in ("tcp", "unix"):
                with connect(server, way) as connection, HTTPResponse(connection) as response:
                    response.begin()
                    assert (response.status, response.headers["Retry-After"]) == (503, "1")
                    problem = json.loads(response.read())
                assert problem["field"] == "connections"
                assert problem["value"] > 8
                assert problem["limit"] == "at most 8 (max_connections)"
            began = time.monotonic()
            while ask_health(server) != 200:
                time.sleep(0.1)
                assert time.monotonic() - began < allow(15)
            server.client.get("/healthz/live")
            del silent
    assert "Traceback" not in server.read_log()


def test_connections_that_never_shake_hands_do_not_lock_others_out_either(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    settings = {"prefix": FEW_DESCRIPTORS, "tls_certificate": certificate, "tls_key": key}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data", **settings))
        began = time.monotonic()
        silent = [stack.enter_context(connect(server)) for _ in range(80)]
        # A caller that was connected before does not feel it.
        matrix = server.upload(np.eye(300))
        job = server.client.post("/v1/jobs", json={"a": matrix, "b": matrix}).json()["id"]
        done = server.wait_job(job)
        assert done["state"] == "succeeded", done
        trusted = ssl.create_default_context(cafile=certificate)
        while ask_health(server, trusted) != 200:
            server.client.get("/healthz/live")
            time.sleep(0.1)
            assert time.monotonic() - began < allow(30)
        for connection in silent:
            connection.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        assert time.monotonic() - began < allow(40)
        assert server.read_metric('wavetrim_wire_refusals_total{status="closed"}') >= 60
    log = server.read_log()
    assert "Traceback" not in log
    assert 1 <= log.count("refused before the application: closed, too many connections") < 5


def test_refusals_before_the_application_are_all_counted_and_some_logged(
    locked: RunningServer,
) -> None:
    for head, expected in ((b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200, 431), (b"?\r\n\r\n", 400)):
        for _ in range(3):
            with connect(locked) as connection:
                connection.sendall(head)
                assert read_answer(connection)[0] == expected
    for status in (431, 400):
        assert locked.read_metric(f'wavetrim_wire_refusals_total{{status="{status}"}}') == 3
    told = locked.read_log().count("refused before the application: ")
    assert 1 <= told <= 2


def ask_health(server: RunningServer, trusted: ssl.SSLContext | bool = False) -> int:
    """The status of /healthz/live for a new caller; 0 where there was no answer."""
    try:
        return httpx.get(f"{server.url}/healthz/live", verify=trusted).status_code
    except httpx.TransportError:
        return 0


def test_bodies_beyond_the_places_wait_and_are_refused_before_a_byte_is_taken(
    tmp_path: Path,
) -> None:
    settings = {"max_bodies": 2, "unix_socket": tmp_path / "socket", "upload_idle_seconds": 20}
    content = encode_npy(np.ones((100, 100)))
    head = make_head("/v1/matrices", len(content), "Expect: 100-continue")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data", **settings))
        ways = ("tcp", "unix", "tcp", "unix")
        first, second, third, fourth = (stack.enter_context(connect(server, way)) for way in ways)
        for connection in (first, second):
            connection.sendall(head)
            assert connection.recv(25) == CONTINUE
            connection.sendall(content[:70_000])
        began = time.monotonic()
        for connection in (third, fourth):
            connection.sendall(head)
        small = np.ones((8, 8))
        assert server.upload(small)  # a short body needs no place
        first.sendall(content[70_000:])
        assert read_answer(first)[0] == 201
        assert third.recv(25) == CONTINUE, "it has the place that came free"
        with HTTPResponse(fourth) as response:
            response.begin()
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
            problem = json.loads(response.read())
        assert 9.5 < time.monotonic() - began < allow(15)
        assert problem["field"] == "bodies"
        assert problem["limit"] == "at most 2 (max_bodies); none ended in 10 s"
        for connection, rest in ((third, content), (second, content[70_000:])):
            connection.sendall(rest)
            assert read_answer(connection)[0] == 201
