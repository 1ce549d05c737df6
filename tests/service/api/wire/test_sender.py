"""Answers that are made while they are sent, on our protocol and on uvicorn's own."""

import time
from collections.abc import Iterator
from http.client import HTTPResponse, IncompleteRead
from typing import Any

import pytest

from tests.service.api.wire.wire_app import MIB
from tests.service.api.wire.wire_server import WireServer, make_head, read_answer, serve_wire


@pytest.fixture(
    scope="module", params=[("tcp",), ("tls",), ("tcp", "--plain")], ids=["tcp", "tls", "plain"]
)
def server(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireServer]:
    with serve_wire(
        tmp_path_factory.mktemp("sender"), "uvloop", *request.param, fails=True
    ) as running:
        yield running


def test_chunks_arrive_in_their_order_and_the_connection_is_kept(server: WireServer) -> None:
    expected = b"".join(bytes([place]) * MIB for place in range(1, 41))
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(make_head("/chunks?count=40", None, method="GET"))
            status, content = read_answer(connection)
            assert status == 200
            assert content == expected


def test_an_answer_that_cannot_be_made_whole_is_seen_to_be_incomplete(server: WireServer) -> None:
    with server.connect() as connection:
        connection.sendall(make_head("/chunks?count=40&fail=20", None, method="GET"))
        with HTTPResponse(connection) as answer:
            answer.begin()
            with pytest.raises((IncompleteRead, OSError)):
                answer.read()
    server.wait_event("failed")


def test_a_reader_who_stops_or_leaves_ends_the_answer(server: WireServer) -> None:
    head = make_head("/chunks?count=100", None, method="GET")
    server.list_events()
    with server.connect(receive_buffer=100_000) as connection:
        connection.sendall(head)
        began = time.monotonic()
        server.wait_event("lost")
        assert time.monotonic() - began > 0.5
    with server.connect(receive_buffer=100_000) as connection:
        connection.sendall(head)
        connection.recv(1000)
    server.wait_event("lost")


def test_a_slow_reader_gets_all_of_it(server: WireServer) -> None:
    with server.connect(receive_buffer=100_000) as connection:
        connection.sendall(make_head("/chunks?count=16", None, method="GET"))
        with HTTPResponse(connection) as answer:
            answer.begin()
            received = 0
            for _ in range(4):
                time.sleep(0.4)
                received += len(answer.read(2 * MIB))
            received += len(answer.read())
    assert received == 16 * MIB
