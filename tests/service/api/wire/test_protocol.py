"""Bodies and answers over every kind of socket: whole, in pieces, broken off, offered as HTTP/2."""

import contextlib
import random
import socket
import struct
import time

import numpy as np
import pytest

from tests.limit import allow
from tests.processes import wait_until
from tests.server import encode_npy
from tests.service.api.matrices.test_uploads import cut
from tests.service.api.wire.wire_server import (
    MIB,
    WAYS,
    exchange,
    make_echo,
    make_head,
    read_answer,
    serve_wire,
)

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: `close` resets the connection."""

ECHO = "/v1/matmul"
RUNNING = 'wavetrim_products{state="running"}'
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
OFFER = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")


@pytest.fixture(scope="module", params=WAYS)
def server(request, tmp_path_factory):
    with serve_wire(tmp_path_factory.mktemp("wire"), request.param) as running:
        yield running


def make_body(count, seed=0):
    """The body of a product, and the body of its answer."""
    return make_echo(random.Random(seed).randbytes(count))


@pytest.mark.parametrize("seed", range(2))
def test_bodies_of_all_sizes_come_back(server, seed):
    source = random.Random(seed)
    sizes = [0, 1, 65278, 65279, 65280, 2**18, *(source.randint(1, 5 * MIB) for _ in range(6))]
    source.shuffle(sizes)
    with server.connect() as connection:
        for size in sizes:
            body, answer = make_body(size, seed)
            for piece in cut(make_head(ECHO, len(body)) + body, seed=seed + size):
                connection.sendall(piece)
                time.sleep(0.005 * (size < MIB))
            assert read_answer(connection) == (200, answer), size


def test_a_head_in_single_bytes_and_a_slow_tail(server):
    body, answer = make_body(300_000)
    with server.connect() as connection:
        for byte in make_head(ECHO, len(body)):
            connection.sendall(bytes([byte]))
        connection.sendall(body[:200_000])
        for begin in range(200_000, len(body), 20_000):
            time.sleep(0.02)
            connection.sendall(body[begin : begin + 20_000])
        assert read_answer(connection) == (200, answer)


@pytest.mark.parametrize("offer", [(), OFFER], ids=["HTTP/1.1", "an offer of HTTP/2"])
def test_requests_sent_at_once_are_answered_in_turn(server, offer):
    bodies = [make_body(size, size) for size in (2 * MIB, 100_000, 10, 0, 70_000, 1)]
    requests = b"".join(
        make_head(ECHO, len(body), *lines) + body for body, _ in bodies for lines in (offer, ())
    )
    found = server.ask(requests, 2 * len(bodies), ends=False)
    assert [one.body for one in found] == [answer for _, answer in bodies for _ in range(2)]


@pytest.mark.parametrize("size", [1, 70_000, 3 * MIB])
@pytest.mark.parametrize("way", ["in one piece", "after its head", "in chunks"])
@pytest.mark.parametrize("offer", [(), OFFER], ids=["HTTP/1.1", "an offer of HTTP/2"])
def test_a_body_is_taken_however_it_comes_and_whatever_is_offered(server, size, way, offer):
    body, answer = make_body(size)
    length, sent, lines = len(body), body, list(offer)
    if way == "in chunks":
        cuts = range(0, len(body), 2**16)
        chunks = [body[begin : begin + 2**16] for begin in cuts]
        length, lines = None, [*offer, "Transfer-Encoding: chunked"]
        sent = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks) + b"0\r\n\r\n"
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(make_head(ECHO, length, *lines))
            time.sleep(0.05 * (way == "after its head"))
            connection.sendall(sent)
            assert read_answer(connection) == (200, answer)


def test_a_client_waits_for_100_continue_only_until_the_body_is_wanted(server):
    body, answer = make_body(MIB)
    with server.connect() as connection:
        connection.sendall(make_head(ECHO, len(body), "Expect: 100-continue"))
        assert connection.recv(1000) == CONTINUE
        connection.sendall(body)
        assert read_answer(connection) == (200, answer)
    head = make_head(ECHO, len(body), "Expect: 100-continue", content_type="text/plain")
    assert exchange(server, head)[0] == 415


def test_http_1_0_is_never_answered_with_100_continue_and_ends_with_its_answer(server):
    for size in (1000, 100_000):
        body, answer = make_body(size)
        head = make_head(ECHO, len(body), "Expect: 100-continue").replace(b"/1.1", b"/1.0")
        with server.connect() as connection:
            connection.sendall(head)
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(30)
            connection.sendall(body)
            assert read_answer(connection) == (200, answer)
            assert connection.recv(1) == b""


@pytest.mark.parametrize("taken", ["nothing", "a header", "a matrix"])
def test_a_client_that_is_refused_early_sees_the_answer(server, taken):
    body = bytearray(24 * MIB)
    if taken == "a matrix":
        first = encode_npy(np.ones((300, 300)))
        body[: len(first)] = first
    content_type = "text/plain" if taken == "nothing" else "application/x-npy"
    with server.connect() as connection:
        # The body is sent whole before the answer is looked at.
        connection.sendall(make_head(ECHO, len(body), content_type=content_type) + body)
        assert read_answer(connection)[0] == (415 if taken == "nothing" else 400)
        assert connection.recv(1) == b""


def test_a_refused_client_that_says_nothing_more_is_not_waited_for(server):
    with server.connect() as connection:
        connection.sendall(make_head(ECHO, 10**9) + bytes(100_000))
        assert read_answer(connection)[0] == 400
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert time.monotonic() - began < allow(8)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("left_bytes", [0, 1, 15 * MIB, 31 * MIB])
def test_a_drop_in_mid_body_ends_the_call(server, left_bytes, reset):
    if reset and server.way == "tls":  # which tells of a reset only when it writes
        return
    # int64 has no fast product: this one takes seconds.
    body = 2 * encode_npy(np.ones((1450, 1450), np.int64))
    with server.connect() as connection:
        connection.sendall(make_head(ECHO, len(body)) + body[: len(body) - left_bytes])
        begun = RUNNING if not left_bytes else "wavetrim_bytes_in_flight"
        wait_until(lambda: server.read_metric(begun) > 0)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    wait_until(lambda: server.read_metric("wavetrim_bytes_in_flight") == 0)
    wait_until(lambda: server.read_metric(RUNNING) == 0)


def test_a_call_that_was_cancelled_writes_nothing_more(server):
    """Its bytes that come later are in nobody's memory."""
    file = encode_npy(np.random.default_rng(0).random((512, 256)))
    head = make_head("/v1/matrices?storage=memory", len(file))
    with server.connect() as silent:
        silent.sendall(head + file[: len(file) // 2])
        assert read_answer(silent)[0] == 408
        other = encode_npy(np.zeros((512, 256)))
        status, _ = exchange(server, head + other)
        with contextlib.suppress(OSError):
            silent.sendall(file[len(file) // 2 :])
        (stored,) = server.list_all("matrices")
        assert (status, stored["where"]) == (201, "memory")
        path = f"/v1/matrices/{stored['id']}"
        assert server.client.get(f"{path}/data").content[-len(file) + 128 :] == other[128:]
        assert server.client.delete(path).status_code == 204


def test_a_silent_client_is_told_so_and_a_slow_one_is_served(server):
    body, answer = make_body(100_000)
    with server.connect() as connection:
        connection.sendall(make_head(ECHO, len(body)))
        for begin in range(0, len(body), 20_000):  # in sum longer than the service's patience
            connection.sendall(body[begin : begin + 20_000])
            time.sleep(0.5)
        assert read_answer(connection) == (200, answer)
    status, problem = exchange(server, make_head(ECHO, len(body)) + body[:70_001])
    assert status == 408
    assert b"silent after 70001 bytes" in problem


def test_a_head_request_has_no_body_and_keeps_the_connection(server):
    path = f"/v1/matrices/{server.upload(np.ones((200, 100)))}"
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(make_head(f"{path}/data", None, method="HEAD"))
            assert read_answer(connection, method="HEAD") == (200, b"")
        connection.sendall(make_head(path, None, method="DELETE"))
        assert read_answer(connection)[0] == 204


def test_idle_connections_are_closed_after_a_pulled_body(server):
    body, answer = make_body(MIB)
    with server.connect() as connection:
        connection.sendall(make_head(ECHO, len(body)) + body)
        assert read_answer(connection) == (200, answer)
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert 4 < time.monotonic() - began < allow(12)


@pytest.mark.serial
@pytest.mark.parametrize("size", [5000, MIB + 5000])
def test_no_client_waits_for_an_acknowledgement_before_its_last_packet(tmp_path, size):
    """Without TCP_NODELAY the client's system sends a last, short packet only then."""
    body, answer = make_echo(bytes(size))
    seconds = []
    with serve_wire(tmp_path, "tcp") as server, server.connect() as connection:
        for _ in range(40):
            began = time.monotonic()
            connection.sendall(make_head(ECHO, len(body)))
            connection.sendall(body[:-5000])
            connection.sendall(body[-5000:])
            assert read_answer(connection) == (200, answer)
            seconds.append(time.monotonic() - began)
    assert sum(one > allow(0.035) for one in seconds) <= 1
