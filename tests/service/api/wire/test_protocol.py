"""Bodies that are pulled from the connection, over every kind of socket."""

import asyncio
import random
import re
import socket
import struct
import time

import pytest

from tests.limit import allow
from tests.service.api.wire.wire_app import MIB
from tests.service.api.wire.wire_server import WAYS, make_head, read_answer, serve_wire

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: `close` resets the connection."""


@pytest.fixture(scope="module", params=WAYS)
def server(request, tmp_path_factory):
    with serve_wire(tmp_path_factory.mktemp("wire"), request.param) as running:
        yield running


def make_body(count, seed=0):
    return random.Random(seed).randbytes(count)


def send_cut(connection, content, *, seed, pause=0.0):
    """Sends in pieces that are cut at random places."""
    source = random.Random(seed)
    cuts = sorted(source.randint(0, len(content)) for _ in range(6))
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        connection.sendall(content[begin:end])
        time.sleep(pause)


@pytest.mark.parametrize("seed", range(2))
def test_bodies_of_all_sizes_come_back(server, seed):
    source = random.Random(seed)
    sizes = [0, 1, 65535, 65536, 65537, 256 * 1024, *(source.randint(1, 5 * MIB) for _ in range(6))]
    source.shuffle(sizes)
    with server.connect() as connection:
        for size in sizes:
            body = make_body(size, seed)
            send_cut(
                connection,
                make_head(f"/echo?seed={seed}", size) + body,
                seed=seed + size,
                pause=0.005 * (size < MIB),
            )
            status, echoed = read_answer(connection)
            assert status == 200
            assert echoed == body, size


def test_a_head_in_single_bytes_and_a_slow_tail(server):
    body = make_body(300_000)
    with server.connect() as connection:
        for byte in make_head("/echo", len(body)):
            connection.sendall(bytes([byte]))
        connection.sendall(body[:200_000])
        for begin in range(200_000, 300_000, 20_000):
            time.sleep(0.02)
            connection.sendall(body[begin : begin + 20_000])
        assert read_answer(connection) == (200, body)


def test_requests_sent_right_after_a_pulled_body_are_served(server):
    first, second, third = make_body(2 * MIB, 1), make_body(100_000, 2), make_body(10, 3)
    requests = b"".join(
        make_head(path, len(body)) + body
        for path, body in (
            ("/echo?seed=1", first),
            ("/echo?seed=2", second),
            ("/plain", third),
            ("/echo", first),
        )
    )
    assert asyncio.run(send_at_once(server, requests, 4)) == [first, second, third, first]


async def send_at_once(server, requests, count):
    """Sends some requests without waiting for answers, and reads the answers' bodies."""
    reader, writer = await server.open()
    writer.write(requests)
    bodies = []
    for _ in range(count):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        found = re.search(rb"content-length: (\d+)", head)
        assert found is not None
        bodies.append(await reader.readexactly(int(found[1])))
    writer.close()
    await writer.wait_closed()
    return bodies


def test_chunked_bodies_take_the_ordinary_way(server):
    body = make_body(MIB)
    with server.connect() as connection:
        connection.sendall(make_head("/plain", None, "Transfer-Encoding: chunked"))
        for begin in range(0, MIB, 2**16):
            connection.sendall(b"10000\r\n" + body[begin : begin + 2**16] + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert read_answer(connection) == (200, body)
        connection.sendall(make_head("/echo", len(body)) + body)
        assert read_answer(connection) == (200, body)


def test_a_client_waits_for_100_continue_only_until_the_body_is_wanted(server):
    body = make_body(MIB)
    with server.connect() as connection:
        connection.sendall(make_head("/echo", len(body), "Expect: 100-continue"))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_answer(connection) == (200, body)
    with server.connect() as connection:
        connection.sendall(make_head("/refuse", len(body), "Expect: 100-continue"))
        assert read_answer(connection) == (413, b"too much")


@pytest.mark.parametrize("query", ["after=0", "after=1000", "after=200000", "after=70000&wait=0.5"])
def test_a_client_that_is_refused_early_sees_the_answer(server, query):
    body = make_body(24 * MIB)
    with server.connect() as connection:
        # The body is sent whole before the answer is looked at.
        connection.sendall(make_head(f"/refuse?{query}", len(body)) + body)
        assert read_answer(connection) == (413, b"too much")
        assert connection.recv(1) == b""


def test_a_refused_client_that_says_nothing_more_is_not_waited_for(server):
    with server.connect() as connection:
        connection.sendall(make_head("/refuse", 10**12) + make_body(100_000))
        assert read_answer(connection) == (413, b"too much")
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert time.monotonic() - began < allow(8)


@pytest.mark.parametrize("reset", [False, True])
def test_a_drop_in_mid_body_ends_the_call(server, reset):
    if reset and server.way == "tls":  # which tells of a reset only when it writes
        return
    for sent in (0, 1, 70_000, 3 * MIB):
        with server.connect() as connection:
            connection.sendall(make_head("/wait-left", 4 * MIB) + make_body(sent))
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        server.wait_event("left")


def test_a_client_that_leaves_after_a_pulled_body_is_noticed(server):
    with server.connect() as connection:
        connection.sendall(make_head("/wait-left", MIB) + make_body(MIB))
        server.wait_event("body")
    server.wait_event("left")


def test_a_call_that_was_cancelled_writes_nothing_more(server):
    with server.connect() as connection:
        connection.sendall(make_head("/give-up?seconds=0.2", MIB) + make_body(200_000))
        time.sleep(0.35)
        connection.sendall(make_body(MIB - 200_000))
        assert read_answer(connection) == (200, b"clean")


def test_a_silent_client_is_told_so_and_a_slow_one_is_served(server):
    with server.connect() as connection:
        connection.sendall(make_head("/stall", 100_000))
        for _ in range(5):  # in sum longer than its patience
            connection.sendall(make_body(20_000))
            time.sleep(0.1)
        assert read_answer(connection) == (200, b"all")
    with server.connect() as connection:
        connection.sendall(make_head("/stall", 100_000) + make_body(70_001))
        status, problem = read_answer(connection)
    assert status == 408
    assert b"silent after 70001 bytes" in problem


def test_a_head_request_has_no_body_and_keeps_the_connection(server):
    with server.connect() as connection:
        for _ in range(2):
            head = make_head("/large?count=100000", None, method="HEAD")
            connection.sendall(head)
            assert read_answer(connection, method="HEAD") == (200, b"")
        connection.sendall(make_head("/large?count=10", None, method="GET"))
        assert read_answer(connection)[0] == 200


def test_http_1_0_closes_after_the_answer(server):
    body = make_body(MIB)
    with server.connect() as connection:
        head = make_head("/echo", len(body)).replace(b"HTTP/1.1", b"HTTP/1.0")
        connection.sendall(head + body)
        assert read_answer(connection) == (200, body)
        assert connection.recv(1) == b""


OFFER = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")


@pytest.mark.parametrize("size", [1, 70_000, 3 * MIB])
@pytest.mark.parametrize("way", ["in one piece", "after its head", "in chunks"])
def test_a_body_whose_client_offers_http_2_is_served_as_http_1_1(server, size, way):
    body = make_body(size)
    length, sent = size, body
    lines = list(OFFER)
    if way == "in chunks":
        length, sent = None, b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
        lines.append("Transfer-Encoding: chunked")
    with server.connect() as connection:
        for path in ("/echo", "/plain", "/echo"):
            head = make_head("/plain" if length is None else path, length, *lines)
            if way == "after its head":
                connection.sendall(head)
                time.sleep(0.05)
                connection.sendall(sent)
            else:
                connection.sendall(head + sent)
            assert read_answer(connection) == (200, body)


def test_requests_that_follow_an_offer_of_http_2_at_once_are_answered_in_turn(server):
    bodies = [make_body(size, size) for size in (100_000, 10, 0, 70_000, 1)]
    requests = b"".join(
        make_head("/echo", len(body), *OFFER) + body + make_head("/plain", len(body)) + body
        for body in bodies
    )
    answers = asyncio.run(send_at_once(server, requests, 10))
    assert answers == [body for body in bodies for _ in range(2)]


def test_http_1_0_is_never_answered_with_100_continue(server):
    for path in ("/echo", "/plain"):
        body = make_body(100_000)
        head = make_head(path, len(body), "Expect: 100-continue").replace(b"/1.1", b"/1.0")
        with server.connect() as connection:
            connection.sendall(head)
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(30)
            connection.sendall(body)
            assert read_answer(connection) == (200, body)


def test_idle_connections_are_closed_after_a_pulled_body(server):
    body = make_body(MIB)
    with server.connect() as connection:
        connection.sendall(make_head("/echo", len(body)) + body)
        assert read_answer(connection) == (200, body)
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert 0.5 < time.monotonic() - began < allow(10)


@pytest.mark.serial
def test_no_client_waits_for_an_acknowledgement_before_its_last_packet(tmp_path):
    """Without TCP_NODELAY the client's system sends a last, short packet only then."""
    body = bytes(4 * MIB + 5000)
    seconds = []
    with serve_wire(tmp_path, "tcp") as server, server.connect() as connection:
        for _ in range(40):
            began = time.monotonic()
            connection.sendall(make_head("/echo", len(body)))
            connection.sendall(body[: 4 * MIB])
            connection.sendall(body[4 * MIB :])
            assert read_answer(connection) == (200, body)
            seconds.append(time.monotonic() - began)
    assert sum(one > allow(0.035) for one in seconds) <= 1
