"""A connected socket, plain or with TLS, that sends from and receives into the caller's memory."""

import errno
import os
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Final

from .address import Address
from .network import Network, is_readable

CONNECT_SECONDS: Final = 10.0
"""How long a host may take to accept a connection; chosen."""

_PAUSE_SECONDS: Final = 0.02


class StreamBroken(Exception):
    """There is no connection, or it broke; the message says why."""


class StreamSilent(StreamBroken):
    """The service neither sent nor took a byte within the timeout."""


class Stream:
    """A connection to a service.

    Args:
        sock: A connected, non-blocking socket.
        network: How to wait.

    Attributes:
        timeout_seconds: The longest silence; None for no limit.
    """

    def __init__(self, sock: socket.socket, network: Network) -> None:
        self._sock = sock
        self._network = network
        self.timeout_seconds: float | None = None
        # A record of TLS may carry no data, so a readable socket need not have an answer.
        self._shows_answers = not isinstance(sock, ssl.SSLSocket)

    async def send(self, data: bytes | memoryview) -> bool:
        """Send bytes; False if the service answers before it has taken them all.

        Raises:
            StreamSilent: The service takes no bytes.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                await self._wait(read=self._shows_answers, write=True)
                if self._shows_answers and is_readable(self._sock):
                    return False
            except ssl.SSLWantReadError:
                await self._wait(read=True)
            except OSError:
                return False  # closed; the service may have sent an answer before
        return True

    async def receive_into(self, view: memoryview) -> int:
        """Receive at least one byte into `view`; returns how many, 0 at the end of the stream.

        Raises:
            StreamBroken: The connection broke, or the service is silent.
        """
        while True:
            try:
                return self._sock.recv_into(view)
            except (BlockingIOError, ssl.SSLWantReadError):
                await self._wait(read=True)
            except ssl.SSLWantWriteError:
                await self._wait(write=True)
            except OSError as error:
                raise StreamBroken(error.strerror or str(error)) from error

    def is_stale(self) -> bool:
        """Whether the service has closed an idle connection, or sent bytes without a request."""
        if not is_readable(self._sock):
            return False
        try:
            self._sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False  # a record of TLS that carries no data
        except OSError:
            pass
        return True

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    async def _wait(self, *, read: bool = False, write: bool = False) -> None:
        seconds = self.timeout_seconds
        try:
            await self._network.wait(self._sock, read=read, write=write, timeout_seconds=seconds)
        except TimeoutError as error:
            raise StreamSilent(f"silent for {seconds:g} s") from error


async def open_stream(
    address: Address,
    network: Network,
    *,
    tls_context: ssl.SSLContext | None,
) -> Stream:
    """Connect to a service.

    Args:
        address: Where it is.
        network: How to wait.
        tls_context: TLS settings; required for an https address.

    Raises:
        StreamBroken: No server answers there, or its certificate is not trusted.
    """
    try:
        sock = await _connect(address, network)
        if address.tls:
            assert tls_context is not None, "an https address comes with a context"
            sock = await _begin_tls(sock, tls_context, address.host, network)
    except TimeoutError as error:
        raise StreamSilent(f"no connection after {CONNECT_SECONDS:g} s") from error
    except OSError as error:
        raise StreamBroken(error.strerror or str(error)) from error
    return Stream(sock, network)


async def _connect(address: Address, network: Network) -> socket.socket:
    """A socket that is connected to the first of the host's addresses that answers."""
    if address.socket_path:
        return await connect_unix(address.socket_path, network)
    failure: OSError | None = None
    for family, _, protocol, _, place in await network.resolve(address.host, address.port):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM, protocol)
            await _connect_one(sock, place, network)
        except OSError as error:
            failure = failure or error
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise failure or OSError(f"{address.host} has no address")


async def connect_unix(
    path: str, network: Network, *, kind: int = socket.SOCK_STREAM
) -> socket.socket:
    """Connect to a Unix socket; waits while its queue is full.

    Raises:
        OSError: No server listens there, or its queue is full for too long.
    """
    sock = socket.socket(socket.AF_UNIX, kind)
    await _connect_one(sock, path, network)
    return sock


async def _connect_one(sock: socket.socket, place: str | tuple[str, int], network: Network) -> None:
    """Connect a socket; close it if that fails."""
    try:
        sock.setblocking(False)
        end = time.monotonic() + CONNECT_SECONDS
        # A Unix socket whose queue is full returns EAGAIN; poll(2) cannot wait for it.
        while (code := sock.connect_ex(place)) == errno.EAGAIN and time.monotonic() < end:
            await network.sleep(_PAUSE_SECONDS)
        if code == errno.EINPROGRESS:
            await network.wait(sock, read=False, write=True, timeout_seconds=CONNECT_SECONDS)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except BaseException:
        sock.close()
        raise
    if code:
        sock.close()
        raise OSError(code, os.strerror(code))


async def _begin_tls(
    sock: socket.socket, context: ssl.SSLContext, host: str, network: Network
) -> ssl.SSLSocket:
    wrapped = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    while True:
        try:
            wrapped.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wanted:
            read = isinstance(wanted, ssl.SSLWantReadError)
            seconds = CONNECT_SECONDS
            try:
                await network.wait(wrapped, read=read, write=not read, timeout_seconds=seconds)
            except BaseException:
                wrapped.close()
                raise
        except BaseException:
            wrapped.close()
            raise
        else:
            return wrapped


def join_small(
    pieces: Iterable[bytes | memoryview], size_bytes: int
) -> Iterator[bytes | memoryview]:
    """The pieces, with consecutive small ones joined to at most `size_bytes`."""
    small: list[bytes | memoryview] = []
    small_bytes = 0
    for piece in pieces:
        if small and small_bytes + len(piece) > size_bytes:
            yield b"".join(small)
            small, small_bytes = [], 0
        if len(piece) > size_bytes:
            yield piece
            continue
        small.append(piece)
        small_bytes += len(piece)
    if small:
        yield b"".join(small)
