"""What callers may ask of the service's connections and bodies, with a key and without one."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.server import RunningServer
from tests.wire_server import make_head, read_answer

KEY = "a-key-of-these-tests"
JSON = "application/json"
AUTHORIZED = f"Authorization: Bearer {KEY}"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("locked")
    running = RunningServer(folder / "data", api_key=KEY, unix_socket=folder / "socket")
    try:
        yield running
    finally:
        running.stop()


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
            assert time.monotonic() - began < 5


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
        assert 9.5 < seconds < 15
        assert status == 408
        assert b'"field": "body"' in problem
        assert b'"limit": "complete within 10 s"' in problem
