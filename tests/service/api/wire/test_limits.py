"""What a connection may ask of the service: the length, number and time of what it sends."""

import contextlib
import random
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.limit import allow
from tests.service.api.wire.wire_app import LIMITS
from tests.service.api.wire.wire_server import WAYS, make_head, read_answer, serve_wire


@pytest.fixture(scope="module", params=WAYS)
def server(request, tmp_path_factory):
    with serve_wire(tmp_path_factory.mktemp("limits"), request.param) as running:
        yield running


def read_resident_bytes(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def fill_head(length):
    """A request without a body whose line and fields have this length, as they are counted."""
    head = make_head("/plain", 0)
    counted = len(head) - len("POST  HTTP/1.1\r\n\r\n")
    return head.replace(b"\r\n\r\n", b"\r\nX-Long: %b\r\n\r\n" % (b"x" * (length - counted - 10)))


def send_for_ever(connection, content):
    """Sends the same bytes again and again until nobody takes them."""
    end = time.monotonic() + 60
    with connection, contextlib.suppress(OSError):
        while time.monotonic() < end:
            connection.sendall(content)


def test_a_head_of_just_the_limit_is_taken_and_a_longer_one_refused(server):
    for length, expected in ((2**16, 200), (2**16 + 1, 431)):
        with server.connect() as connection:
            connection.sendall(fill_head(length))
            status, problem = read_answer(connection)
            assert status == expected
    assert b"65537 bytes" in problem
    assert b"at most 65536 bytes" in problem


def test_a_hundred_fields_are_taken_and_one_more_is_refused(server):
    for count, expected in ((97, 200), (98, 431)):  # and Host, Content-Type, Content-Length
        with server.connect() as connection:
            connection.sendall(make_head("/plain", 0, *(f"X-{i}: 1" for i in range(count))))
            status, problem = read_answer(connection)
            assert status == expected
            if expected == 431 and server.way != "tls":  # which cannot end in one direction
                assert connection.recv(1) == b""
    assert b'"field": "header fields", "value": 101, "limit": "at most 100"' in problem


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"GET /plain HTTP/1.1\r\n", b"X-Field: 0123456789\r\n" * 1000),
        (b"GET /plain HTTP/1.1\r\nX-Field: ", b"x" * 50_000),
        (b"GET /", b"x" * 50_000),
        (make_head("/plain", None, "Transfer-Encoding: chunked") + b"0\r\n", b"X-T: 1\r\n" * 5000),
        (b"", b"\r\n" * 20_000),
    ],
    ids=["fields", "value", "url", "trailers", "empty lines"],
)
def test_a_head_that_never_ends_is_cut_off_and_nothing_of_it_is_kept(server, begin, again):
    before = read_resident_bytes(server)
    connection = server.connect()
    connection.sendall(begin)
    sending = threading.Thread(target=send_for_ever, args=(connection, again))
    began = time.monotonic()
    sending.start()
    assert server.ask("/plain", b"x") == (200, b"x")
    sending.join()
    assert time.monotonic() - began < allow(30)
    assert read_resident_bytes(server) - before < 48 * 2**20


def test_a_head_that_trickles_is_late_and_the_client_is_told(server):
    with server.connect() as connection:
        for _ in range(2):  # not only as the first request
            connection.sendall(make_head("/plain", 1) + b"x")
            assert read_answer(connection) == (200, b"x")
        began = time.monotonic()
        connection.sendall(b"GET /plain HTTP/1.1\r\n")
        while time.monotonic() < began + LIMITS.head_seconds - 0.3:
            connection.sendall(b"X")
            time.sleep(0.1)
        status, problem = read_answer(connection)
        assert LIMITS.head_seconds - 0.1 < time.monotonic() - began < allow(15)
    assert status == 408
    assert b"complete within 2 s of its first byte" in problem


def test_a_silent_connection_is_closed_without_a_word(server):
    with server.connect() as connection:
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert LIMITS.head_seconds - 0.1 < time.monotonic() - began < allow(15)


def test_fields_after_a_chunked_body_are_no_headers(server):
    head = make_head("/plain", None, "Transfer-Encoding: chunked")
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(head + b"3\r\nabc\r\n0\r\nExpires: never\r\nDigest: x\r\n\r\n")
            assert read_answer(connection) == (200, b"abc")


def test_many_small_chunks_are_no_head(server):
    content = random.Random(0).randbytes(60_000)
    chunks = b"".join(b"1\r\n%b\r\n" % content[i : i + 1] for i in range(len(content)))
    with server.connect() as connection:
        connection.sendall(make_head("/plain", None, "Transfer-Encoding: chunked"))
        connection.sendall(chunks + b"0\r\n\r\n")
        assert read_answer(connection) == (200, content)


def test_a_half_closed_client_is_answered_and_one_that_left_is_noticed(server):
    if server.way == "tls":  # which knows no half-closed connection
        return
    request = make_head("/slow?seconds=2.5", 1) + b"x"
    with server.connect() as connection:
        connection.sendall(make_head("/plain", 1) + b"x" + request)
        connection.shutdown(socket.SHUT_WR)
        assert read_answer(connection) == (200, b"x")
        assert read_answer(connection) == (200, b"slow")
        assert connection.recv(1) == b""
    server.list_events()
    with server.connect() as connection:
        connection.sendall(make_head("/slow?seconds=60", 1) + b"x")
    server.wait_event("left", 10)
    with server.connect() as connection:  # in the middle of a body
        connection.sendall(make_head("/plain", 2) + b"x")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


@pytest.mark.parametrize("count", [100_000, None], ids=["pulled", "chunked"])
def test_a_body_that_trickles_is_too_slow_and_the_client_is_told(server, count):
    lines = ["Transfer-Encoding: chunked"] if count is None else []
    with server.connect() as connection:
        connection.sendall(make_head("/stall", count, *lines))
        refused = threading.Event()
        piece = b"x" if count else b"1\r\nx\r\n"
        trickling = threading.Thread(target=trickle, args=(connection, piece, refused))
        trickling.start()
        status, problem = read_answer(connection)
        refused.set()
        trickling.join()
    assert status == 408
    assert b"too slow after" in problem
    assert b"1024 bytes a second at least, over 0.3 s" in problem


def trickle(connection, piece, stopped):
    """Sends a piece twenty times a second until it is told to stop."""
    while not stopped.wait(0.05):
        connection.sendall(piece)
