"""Downloads that nobody takes, or takes slowly: from files and from the arena, also over TLS."""

import contextlib
import time
from http.client import HTTPResponse
from pathlib import Path

import numpy as np
import pytest

from tests.certificates import make_tls_settings
from tests.processes import wait_until
from tests.server import RunningServer, decode_npy, encode_npy
from tests.service.api.wire.wire_server import make_head

ARRAY = np.random.default_rng(0).random((1024, 2048))
CONTENT = encode_npy(ARRAY)
IDLE_SECONDS = 2.0
ARENA, FILE = "268435456", "0"
"""Bytes of an arena that has room for the array, and of none."""


@pytest.fixture(
    scope="module",
    params=[("tcp", FILE), ("tcp", ARENA), ("tls", FILE), ("tls", ARENA)],
    ids=["tcp-file", "tcp-arena", "tls-file", "tls-arena"],
)
def server(request, tmp_path_factory):
    way, arena_bytes = request.param
    folder = tmp_path_factory.mktemp("downloads")
    settings = make_tls_settings(folder) if way == "tls" else {}
    with RunningServer(
        folder / "data", upload_idle_seconds=IDLE_SECONDS, arena_bytes=arena_bytes, **settings
    ) as running:
        yield running


def ask(server, path, *, method="GET"):
    """A connection on which a request was sent; its receive buffer is small."""
    connection = server.connect(receive_buffer=65536)
    connection.sendall(make_head(path, None, method=method))
    return connection


def count_used(server):
    """Bytes that are held in the arena, and files of deleted matrices that are open."""
    arena = server.client.get("/v1/devices").json()["arena"]
    files = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            files += str(link.readlink()).endswith(".npy (deleted)")
    return (0 if arena is None else int(arena["used_bytes"])) + files


def test_a_reader_who_stops_for_ever_gives_its_matrix_back(server):
    matrix = server.upload(ARRAY)
    with ask(server, f"/v1/matrices/{matrix}/data") as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        server.client.delete(f"/v1/matrices/{matrix}")
        assert count_used(server) > 0
        began = time.monotonic()
        wait_until(lambda: count_used(server) == 0)
        assert time.monotonic() - began >= 0.5 * IDLE_SECONDS
        received = 0
        with pytest.raises(OSError, match=r"reset|EOF|closed"):  # noqa: PT012 - until it breaks
            while chunk := connection.recv(65536):
                received += len(chunk)
            raise ConnectionResetError("closed")
        assert received < len(CONTENT)


def test_a_slow_reader_gets_all_of_it(server):
    matrix = server.upload(ARRAY)
    with (
        ask(server, f"/v1/matrices/{matrix}/data") as connection,
        HTTPResponse(connection) as answer,
    ):
        answer.begin()
        received = b""
        # Each pause is shorter than the limit, and all of them together are longer.
        for _ in range(6):
            time.sleep(0.4 * IDLE_SECONDS)
            received += answer.read(2**21)
        received += answer.read()
    assert np.array_equal(decode_npy(received), ARRAY)
    server.client.delete(f"/v1/matrices/{matrix}")
    wait_until(lambda: count_used(server) == 0)


def test_a_reader_who_leaves_gives_its_matrix_back(server):
    matrix = server.upload(ARRAY)
    with ask(server, f"/v1/matrices/{matrix}/data") as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
    server.client.delete(f"/v1/matrices/{matrix}")
    wait_until(lambda: count_used(server) == 0)
