"""The service's own routes on the wire: refusals before, within and after a body."""

import time

import numpy as np
import pytest

from tests.processes import wait_until
from tests.server import encode_npy
from tests.service.api.wire.wire_server import make_head, read_answer

CONTENT = encode_npy(np.random.default_rng(0).random((1500, 1000)))


def ask_1_0(server, method, path, *lines):
    """Head and body of an answer to HTTP/1.0, which ends with the connection."""
    head = "\r\n".join([f"{method} {path} HTTP/1.0", *lines, "", ""])
    received = b""
    with server.connect() as connection:
        connection.sendall(head.encode())
        while chunk := connection.recv(2**16):
            received += chunk
    head_bytes, _, body = received.partition(b"\r\n\r\n")
    return head_bytes.lower(), body


@pytest.mark.parametrize(("method", "path"), [("GET", "/healthz/live"), ("OPTIONS", "/")])
def test_a_load_balancer_that_asks_by_http_1_0_without_a_host_learns_that_the_service_lives(
    shared_server, method, path
):
    head, _ = ask_1_0(shared_server, method, path)
    assert head.startswith(b"http/1.1 20")
    refused, _ = ask_1_0(shared_server, method, path, "Host: evil.example")
    assert refused.startswith(b"http/1.1 403")


def test_events_come_without_chunks_by_http_1_0(shared_server):
    eye = np.eye(3)
    job = shared_server.post_job(eye, eye)
    shared_server.wait_job(job)
    head, body = ask_1_0(shared_server, "GET", f"/v1/jobs/{job}/events")
    assert b"transfer-encoding" not in head
    assert body.startswith(b"event: job\n")
    assert body.endswith(b"\n\n")


def begin_upload(server):
    """A connection on which a part of a body has come."""
    connection = server.connect()
    connection.sendall(make_head("/v1/matrices", len(CONTENT)) + CONTENT[:5_000_000])
    wait_until(lambda: bool(server.list_matrix_files()))
    return connection


def test_a_body_under_way_is_taken_when_the_service_is_told_to_stop(start_server):
    server = start_server()
    with begin_upload(server) as connection:
        server.terminate()
        time.sleep(1)
        connection.sendall(CONTENT[5_000_000:])
        assert read_answer(connection)[0] == 201
    assert server.process.wait(20) == 0


def test_a_body_that_never_ends_does_not_keep_the_service_from_stopping(start_server):
    server = start_server()
    with begin_upload(server):
        server.terminate()
        assert server.process.wait(40) == 0
    assert server.list_matrix_files() == set()
