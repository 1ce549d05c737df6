"""Where a request ends: what is no request is refused, and never costs another one its answer.

Also what the service's own routes say by HTTP/1.0, and to a body when it is told to stop.
"""

import time

import numpy as np
import pytest

from tests.processes import wait_until
from tests.server import encode_npy
from tests.service.api.wire.wire_server import exchange, make_head, read_answer, serve_wire

JSON = "application/json"
CHUNKED = make_head("/v1/jobs", None, "Transfer-Encoding: chunked", content_type=JSON)
GARBAGE = b"\x16\x03\x01 no request\r\n\r\n"
LIVE = make_head("/healthz/live", None, method="GET")
WAITING = b'"state":"'


@pytest.fixture(scope="module", params=("tcp", "tls"))
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("framing")
    with serve_wire(folder, request.param) as running, running.engine_stopped():
        job = running.post_job(np.eye(3), np.eye(3), verify=True)
        running.slow = make_head(f"/v1/jobs/{job}?wait_seconds=0.2", None, method="GET")
        yield running


def test_a_client_that_has_said_all_gets_each_of_its_answers(server):
    half_closes = server.way != "tls"
    answers = server.ask(server.slow + 4 * LIVE, 5, half_closes=half_closes, ends=half_closes)
    assert [WAITING in answer.body for answer in answers] == [True, *[False] * 4]


@pytest.mark.parametrize("before", [1, 3])
def test_requests_before_a_malformed_one_are_answered(server, before):
    answers = server.ask(server.slow * before + GARBAGE, before)
    assert all(answer.status == 200 and WAITING in answer.body for answer in answers)


def test_a_malformed_request_is_refused_by_a_problem_document(server):
    (answer,) = server.ask(GARBAGE, 1)
    assert answer.status == 400
    assert b'"type": "urn:wavetrim:problem:request-malformed"' in answer.body


def test_a_malformed_chunk_ends_the_request_with_a_refusal(server):
    for content in (b"1\r\nx\r\nno length\r\n", b"1\r\nxx\r\n"):
        (answer,) = server.ask(CHUNKED + content, 1)
        assert (answer.status, b"request-malformed" in answer.body) == (400, True)


def test_requests_before_a_malformed_chunk_are_answered(server):
    answers = server.ask(server.slow + LIVE + CHUNKED + b"no length\r\n", 3)
    assert [answer.status for answer in answers] == [200, 200, 400]
    assert [WAITING in answer.body for answer in answers] == [True, False, False]


@pytest.mark.parametrize("version", ["", " HTTP/0.9", " HTTP/2.0"])
def test_other_versions_of_http_are_refused(server, version):
    head = LIVE.replace(b" HTTP/1.1", version.encode())
    (answer,) = server.ask(head, 1)
    assert (answer.status, b'"field": "HTTP version"' in answer.body) == (400, True)


@pytest.mark.parametrize(
    "coding", ["identity, chunked", "gzip, chunked", "chunked, chunked", "identity"]
)
def test_other_transfer_codings_than_chunks_are_refused(server, coding):
    for lines in ([coding], coding.split(", ")):
        head = make_head("/v1/jobs", None, *(f"Transfer-Encoding: {line}" for line in lines))
        (answer,) = server.ask(head + b"1\r\nx\r\n0\r\n\r\n", 1)
        assert answer.status == 400


def test_a_request_sent_together_with_an_upgrade_is_never_read_from_its_middle(server):
    upgrade = make_head("/healthz/live", None, "Connection: Upgrade", "Upgrade: h2c", method="GET")
    with server.connect() as connection:
        connection.sendall(upgrade + LIVE[:20])
        assert read_answer(connection)[0] == 200
        connection.sendall(LIVE[20:])
        assert read_answer(connection)[0] == 200


def test_white_space_around_a_value_is_no_part_of_it(server):
    length, coding = b"Content-Length: 1 \t", b"Content-Encoding:  identity "
    head = make_head("/v1/jobs", 1, content_type=JSON)
    head = head.replace(b"Content-Length: 1", length + b"\r\n" + coding)
    assert exchange(server, head + b"1")[0] == 422


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
