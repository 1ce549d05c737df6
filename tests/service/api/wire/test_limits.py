"""What a connection may ask of the service: the length, number and time of what it sends."""

import contextlib
import random
import socket
import threading
import time

import numpy as np
import pytest

from tests.limit import allow
from tests.own_memory import measure_resident
from tests.server import encode_npy
from tests.service.api.wire.wire_server import (
    PATIENCE_SECONDS,
    WAYS,
    exchange,
    make_echo,
    make_head,
    read_answer,
    serve_wire,
)

LIVE = "/healthz/live"
GET = make_head(LIVE, None, method="GET")


@pytest.fixture(scope="module", params=WAYS)
def server(request, tmp_path_factory):
    with serve_wire(tmp_path_factory.mktemp("limits"), request.param) as running:
        yield running


def fill_head(length):
    """A request without a body whose line and fields have this length, as they are counted."""
    counted = len(GET) - len("GET  HTTP/1.1\r\n\r\n")
    return GET.replace(b"\r\n\r\n", b"\r\nX-Long: %b\r\n\r\n" % (b"x" * (length - counted - 10)))


def send_for_ever(connection, content):
    """Sends the same bytes again and again until nobody takes them."""
    end = time.monotonic() + 60
    with connection, contextlib.suppress(OSError):
        while time.monotonic() < end:
            connection.sendall(content)


def test_a_head_of_just_the_limit_is_taken_and_a_longer_one_refused(server):
    for length, expected in ((2**16, 200), (2**16 + 1, 431)):
        status, problem = exchange(server, fill_head(length))
        assert status == expected
    assert b"65537 bytes" in problem
    assert b"at most 65536 bytes" in problem


def test_a_hundred_fields_are_taken_and_one_more_is_refused(server):
    for count, expected in ((98, 200), (99, 431)):  # and Host, Content-Type
        with server.connect() as connection:
            fields = (f"X-{i}: 1" for i in range(count))
            connection.sendall(make_head(LIVE, None, *fields, method="GET"))
            status, problem = read_answer(connection)
            assert status == expected
            if expected == 431 and server.way != "tls":  # which cannot end in one direction
                assert connection.recv(1) == b""
    assert b'"field": "header fields", "value": 101, "limit": "at most 100"' in problem


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"GET /v1/jobs HTTP/1.1\r\n", b"X-Field: 0123456789\r\n" * 1000),
        (b"GET /v1/jobs HTTP/1.1\r\nX-Field: ", b"x" * 50_000),
        (b"GET /", b"x" * 50_000),
        (
            make_head("/v1/jobs", None, "Transfer-Encoding: chunked") + b"0\r\n",
            b"X-T: 1\r\n" * 5000,
        ),
        (b"", b"\r\n" * 20_000),
    ],
    ids=["fields", "value", "url", "trailers", "empty lines"],
)
def test_a_head_that_never_ends_is_cut_off_and_nothing_of_it_is_kept(server, begin, again):
    before = measure_resident(server.process.pid)
    connection = server.connect()
    connection.sendall(begin)
    sending = threading.Thread(target=send_for_ever, args=(connection, again))
    began = time.monotonic()
    sending.start()
    server.wait_live()
    sending.join()
    assert time.monotonic() - began < allow(30)
    assert measure_resident(server.process.pid) - before < 48 * 2**20


def test_a_head_that_trickles_is_late_and_the_client_is_told(server):
    with server.connect() as connection:
        for _ in range(2):  # not only as the first request
            connection.sendall(GET)
            assert read_answer(connection)[0] == 200
        began = time.monotonic()
        connection.sendall(b"GET /v1/jobs HTTP/1.1\r\n")
        while time.monotonic() < began + PATIENCE_SECONDS - 0.3:
            connection.sendall(b"X")
            time.sleep(0.1)
        status, problem = read_answer(connection)
        assert PATIENCE_SECONDS - 0.1 < time.monotonic() - began < allow(15)
    assert status == 408
    assert b"complete within 2 s of its first byte" in problem


def test_a_silent_connection_is_closed_without_a_word(server):
    with server.connect() as connection:
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert PATIENCE_SECONDS - 0.1 < time.monotonic() - began < allow(15)


def test_fields_after_a_chunked_body_are_no_headers(server):
    head = make_head("/v1/jobs", None, "Transfer-Encoding: chunked", content_type="text/json")
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(head + b"3\r\nabc\r\n0\r\nExpires: never\r\nHost: x\r\n\r\n")
            assert read_answer(connection)[0] == 415


def test_many_small_chunks_are_no_head(server):
    body, answer = make_echo(random.Random(0).randbytes(60_000))
    chunks = b"".join(b"1\r\n%b\r\n" % body[i : i + 1] for i in range(len(body)))
    head = make_head("/v1/matmul", None, "Transfer-Encoding: chunked")
    assert exchange(server, head + chunks + b"0\r\n\r\n") == (200, answer)


def test_a_half_closed_client_is_answered_and_one_that_left_is_noticed(server):
    if server.way == "tls":  # which knows no half-closed connection
        return
    with server.engine_stopped():
        job = server.post_job(np.eye(3), np.eye(3), verify=True)
        slow = make_head(f"/v1/jobs/{job}?wait_seconds=2.5", None, method="GET")
        answers = server.ask(GET + slow, 2, half_closes=True)
        assert [answer.status for answer in answers] == [200, 200]
        with server.connect() as connection:
            body = 2 * encode_npy(np.eye(300))
            connection.sendall(make_head("/v1/matmul", len(body), "X-Request-Id: left") + body)
        server.wait_logged("[left] POST '/v1/matmul' 499")
    with server.connect() as connection:  # in the middle of a body
        connection.sendall(make_head("/v1/jobs", 2, content_type="application/json") + b"x")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


@pytest.mark.parametrize("count", [100_000, None], ids=["pulled", "chunked"])
def test_a_body_that_trickles_is_too_slow_and_the_client_is_told(server, count):
    lines = ["Transfer-Encoding: chunked"] if count is None else []
    magic, piece, received = b"\x93NUMPY\x01\x00v\x00", b"x", b""
    if count is None:
        magic, piece = b"a\r\n%b\r\n" % magic, b"1\r\nx\r\n"
    end = time.monotonic() + 60
    with server.connect() as connection:
        connection.sendall(make_head("/v1/matmul", count, *lines) + magic)
        connection.settimeout(0.1)
        while not received and time.monotonic() < end:
            connection.sendall(piece)
            with contextlib.suppress(TimeoutError):
                received = connection.recv(2**16)
    assert b" 408 " in received
    assert b"too slow after" in received
    assert b"1024 bytes a second at least, over 2 s" in received
