"""Sockets that are connected to a service: TCP, with or without TLS, or a Unix socket."""

import socket
import ssl
import time
from typing import Final

from .address import Address
from .interruption import find_interruption

CONNECT_SECONDS: Final = 10.0
"""How long a host may take to accept a connection; chosen."""

_PAUSE_SECONDS: Final = 0.02


def connect_socket(address: Address, tls_context: ssl.SSLContext | None) -> socket.socket:
    """Connect to a service.

    Args:
        address: Where it is.
        tls_context: TLS settings; required for an https address.

    Raises:
        OSError: No server answers there, or its certificate is not trusted.
    """
    if address.socket_path:
        return connect_unix(address.socket_path)
    sock = _connect_tcp(address)
    if tls_context is None:
        return sock
    wrapped = tls_context.wrap_socket(
        sock, server_hostname=address.host, do_handshake_on_connect=False
    )
    try:
        find_interruption().watch(wrapped)
        wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def _connect_tcp(address: Address) -> socket.socket:
    """A socket that is connected to the first of the host's addresses that answers."""
    failure: OSError | None = None
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, place in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(CONNECT_SECONDS)
            find_interruption().watch(sock)
            sock.connect(place)
        except OSError as error:
            sock.close()
            failure = failure or error
        except BaseException:
            sock.close()
            raise
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise failure or OSError(f"{address.host} has no address")


def connect_unix(path: str, *, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Connect to a Unix socket; waits while its queue is full.

    Raises:
        OSError: No server listens there, or its queue is full for too long.
    """
    end = time.monotonic() + CONNECT_SECONDS
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        sock.settimeout(CONNECT_SECONDS)
        while True:
            try:
                sock.connect(path)
            except BlockingIOError:  # no timeout of a socket waits for a full queue
                if time.monotonic() > end:
                    raise
                find_interruption().sleep(_PAUSE_SECONDS)
            else:
                return sock
    except BaseException:
        sock.close()
        raise


def is_stale(sock: socket.socket) -> bool:
    """Whether the service has closed an idle connection, or sent bytes without a request."""
    sock.settimeout(0)
    try:
        sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False  # of TLS a record may be there that carries no data
    except OSError:
        pass
    return True
