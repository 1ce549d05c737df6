"""A pull on a connection that is lost or closed ends, even before it is told so."""

import asyncio
import functools
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.certificates import make_certificate
from tests.service.api.wire.wire_server import make_context
from wavetrim.service.api.wire.body_pull import BodyCutOff, BodyPull, BodySilent

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: `close` resets the connection."""

RUNS = (asyncio.run, uvloop.run)


class Peer(asyncio.Protocol):
    """Tells of the connection that it gets."""

    def __init__(self, made: asyncio.Future[Any]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.set_result(transport)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def connect(address: tuple[str, int], *, tls: bool) -> socket.socket:
    connection = socket.create_connection(address)
    return make_context().wrap_socket(connection) if tls else connection


async def open_pull(
    certificate: tuple[Path, Path] | None,
) -> tuple[BodyPull, Any, socket.socket]:
    """A pull of a body of which nothing has come, its transport, and the client's end."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Any] = loop.create_future()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    server = await loop.create_server(lambda: Peer(made), "127.0.0.1", 0, ssl=context)
    address = server.sockets[0].getsockname()
    link = functools.partial(connect, address, tls=certificate is not None)
    client = await loop.run_in_executor(None, link)
    transport = await made
    server.close()
    http = transport.get_protocol()
    pull = BodyPull(http=http, transport=transport, left_bytes=10, on_end=lambda: None)
    transport.set_protocol(pull)
    transport.pause_reading()
    return pull, transport, client


async def pull_while_lost(certificate: tuple[Path, Path] | None, turns: int) -> None:
    """Pulls that many turns of the loop after the server has met the reset."""
    pull, transport, client = await open_pull(certificate)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()
    transport.write(b"x")  # which finds that the connection is lost
    for _ in range(turns):
        await asyncio.sleep(0)
    with pytest.raises(BodyCutOff):
        await pull.fill(view=memoryview(bytearray(10)), idle_seconds=5.0)


async def pull_while_closed(certificate: tuple[Path, Path] | None) -> None:
    """Pulls from a silent client, and closes the connection twice meanwhile."""
    pull, transport, client = await open_pull(certificate)
    filling = asyncio.create_task(pull.fill(memoryview(bytearray(10)), idle_seconds=0.1))
    await asyncio.sleep(0)
    transport.close()
    transport.close()
    with client, pytest.raises((BodyCutOff, BodySilent)):
        await filling


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("run", RUNS)
def test_a_pull_on_a_lost_connection_is_cut_off(
    certificate: tuple[Path, Path], run: Callable[..., None], *, tls: bool
) -> None:
    for turns in range(8):
        run(pull_while_lost(certificate if tls else None, turns))


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("run", RUNS)
def test_a_pull_on_a_connection_that_is_closed_ends(
    certificate: tuple[Path, Path], run: Callable[..., None], *, tls: bool
) -> None:
    run(pull_while_closed(certificate if tls else None))
