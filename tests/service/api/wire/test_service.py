"""The service's own routes on the wire: refusals before, within and after a body."""

import socket
import time
from http.client import HTTPResponse

import numpy as np
import pytest

from tests.processes import wait_until
from tests.server import RunningServer, Start, decode_npy, encode_npy
from tests.service.api.wire.wire_server import make_head, read_answer

CONTENT = encode_npy(np.random.default_rng(0).random((1500, 1000)))


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


@pytest.mark.parametrize("path", ["/v1/matrices", "/v1/jobs"])
def test_a_body_after_an_upgrade_header_is_refused_by_name(
    shared_server: RunningServer, path: str
) -> None:
    lines = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    with connect(shared_server) as connection:
        connection.sendall(make_head(path, 300, *lines) + CONTENT[:300])
        status, problem = read_answer(connection)
    assert (status, b'"field": "Upgrade"' in problem) == (415, True)


def test_uploads_and_other_requests_share_a_connection(shared_server: RunningServer) -> None:
    with connect(shared_server) as connection:
        connection.sendall(make_head("/v1/matrices", len(CONTENT)) + CONTENT)
        status, stored = read_answer(connection)
        assert status == 201
        connection.sendall(make_head("/v1/jobs", None, method="GET"))
        assert read_answer(connection)[0] == 200
        matrix = stored.split(b'"id":"')[1].split(b'"')[0].decode()
        connection.sendall(make_head(f"/v1/matrices/{matrix}/data", None, method="HEAD"))
        with HTTPResponse(connection, method="HEAD") as response:
            response.begin()
            length = int(response.headers["Content-Length"])
        connection.sendall(make_head(f"/v1/matrices/{matrix}/data", None, method="GET"))
        status, content = read_answer(connection)
        assert (status, len(content)) == (200, length)
        assert np.array_equal(decode_npy(content), decode_npy(CONTENT))


def test_a_body_under_way_is_taken_when_the_service_is_told_to_stop(start_server: Start) -> None:
    server = start_server()
    with connect(server) as connection:
        connection.sendall(make_head("/v1/matrices", len(CONTENT)) + CONTENT[:5_000_000])
        wait_until(lambda: bool(server.list_matrix_files()))
        server.terminate()
        time.sleep(1)
        connection.sendall(CONTENT[5_000_000:])
        assert read_answer(connection)[0] == 201
    assert server.process.wait(20) == 0


def test_a_body_that_never_ends_does_not_keep_the_service_from_stopping(
    start_server: Start,
) -> None:
    server = start_server()
    with connect(server) as connection:
        connection.sendall(make_head("/v1/matrices", len(CONTENT)) + CONTENT[:5_000_000])
        wait_until(lambda: bool(server.list_matrix_files()))
        server.terminate()
        assert server.process.wait(40) == 0
    assert server.list_matrix_files() == set()
