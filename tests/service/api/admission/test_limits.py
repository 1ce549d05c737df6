"""What callers may ask of the service's connections and bodies, with a key and without one."""

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse

import numpy as np
import pytest

from tests.limit import allow
from tests.server import RunningServer, encode_npy, make_server_fixture
from tests.service.api.wire.wire_server import exchange, make_head, read_answer

KEY = "a-key-of-these-tests"
JSON = "application/json"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
AUTHORIZED = f"Authorization: Bearer {KEY}"

locked = make_server_fixture(has_socket=True, api_key=KEY)


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_the_key_is_asked_for_before_any_byte_of_a_body(locked, way):
    paths = {"/v1/matmul": JSON, "/v1/matrices": "application/x-npy"}
    paths |= dict.fromkeys(("/v1/jobs", "/v1/leases", "/v1/none"), JSON)
    for path, content_type in paths.items():
        began = time.monotonic()
        head = make_head(path, 300, content_type=content_type)
        assert exchange(locked, head, way=way)[0] == 401, path
        assert time.monotonic() - began < allow(5)


def test_a_json_body_that_trickles_is_late_and_the_caller_is_told(locked):
    def trickle(way, path, count):
        lines = [AUTHORIZED, *(["Transfer-Encoding: chunked"] if count is None else [])]
        with locked.connect(way) as connection:
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


def test_refusals_before_the_application_are_all_counted_and_some_logged(locked):
    for head, expected in ((b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200, 431), (b"?\r\n\r\n", 400)):
        for _ in range(3):
            assert exchange(locked, head)[0] == expected
    for status in (431, 400):
        assert locked.read_metric(f'wavetrim_wire_refusals_total{{status="{status}"}}') == 3
    told = locked.read_log().count("refused before the application: ")
    assert 1 <= told <= 2


def test_bodies_beyond_the_places_wait_and_are_refused_before_a_byte_is_taken(tmp_path):
    settings = {"max_bodies": 2, "unix_socket": tmp_path / "socket", "upload_idle_seconds": 20}
    content = encode_npy(np.ones((100, 100)))
    head = make_head("/v1/matrices", len(content), "Expect: 100-continue")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data", **settings))
        ways = ("tcp", "unix", "tcp", "unix")
        first, second, third, fourth = (stack.enter_context(server.connect(way)) for way in ways)
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
        assert problem["limit"] == "at most 2; none ended in 10 s"
        for connection, rest in ((third, content), (second, content[70_000:])):
            connection.sendall(rest)
            assert read_answer(connection)[0] == 201
