"""Where a service is: an http or https address, or the path of a Unix socket. Sockets to it."""

import os
import re
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from .interruption import find_interruption

CONNECT_SECONDS: Final = 10.0
"""How long a host may take to accept a connection; chosen."""

_PAUSE_SECONDS: Final = 0.02
_LIMIT: Final = (
    "http:// or https:// and a host, perhaps a path of ASCII characters without spaces,"
    " or the path of a Unix socket (/run/wavetrim.sock)"
)
_PATH: Final = re.compile(r"[\x21-\x7e]*")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is.

    Attributes:
        url: The address for messages.
        host: Name or IP address of the machine; "localhost" for a Unix socket.
        port: TCP port; 0 for a Unix socket.
        socket_path: Path of the Unix socket; empty for TCP.
        tls_context: TLS settings; None if the connection is not encrypted.
        prefix: Path before every route, without a slash at its end.
        authority: Value of the Host header.
    """

    url: str
    host: str
    port: int
    socket_path: str = ""
    tls_context: ssl.SSLContext | None = None
    prefix: str = ""
    authority: str = "localhost"


def parse_address(url: str | os.PathLike[str], tls_context: ssl.SSLContext | None) -> Address:
    """Read "http://host:8000", "https://host/prefix", "/run/wavetrim.sock" or "unix:<path>".

    For https without TLS settings they are the system's.
    """
    text = os.fspath(url)
    path = text.removeprefix("unix:")
    if path and (path != text or path.startswith(("/", "./", "../"))):
        path = str(Path(path).absolute())
        return Address(f"unix:{path}", "localhost", 0, path)
    shown = re.sub("//.*@", "//…@", text)  # a password is not repeated
    refused = ValueError(f"url is {shown!r}; it must be {_LIMIT}")
    try:
        parts = urlsplit(text)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as the system's resolver has it
    except ValueError as error:
        raise refused from error
    if "@" in parts.netloc:
        raise ValueError(f"url is {shown!r}; it must be without a user: `api_key` takes the key")
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise refused
    if not _PATH.fullmatch(parts.path) or " " in parts.netloc or not text.isprintable():
        raise refused
    tls_context = tls_context or ssl.create_default_context() if parts.scheme == "https" else None
    return Address(
        url=text.rstrip("/"),
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        tls_context=tls_context,
        prefix=parts.path.rstrip("/"),
        authority=parts.netloc,
    )


def connect_to(address: Address) -> socket.socket:
    """A socket that is connected to a service; of TLS, the handshake is still to be done."""
    if address.socket_path:
        return connect_unix(address.socket_path)
    sock = _connect_tcp(address.host, address.port)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.tls_context is None:
        return sock
    return address.tls_context.wrap_socket(
        sock, server_hostname=address.host, do_handshake_on_connect=False
    )


def _connect_tcp(host: str, port: int) -> socket.socket:
    """Connect to the first of a host's addresses that accepts; raises what the last one said."""
    failure = OSError()
    for family, kind, protocol, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            return _connect(socket.socket(family, kind, protocol), place)
        except OSError as error:
            failure = error
    raise failure


def connect_unix(path: str, *, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Connect to a Unix socket; waits while its queue is full."""
    return _connect(socket.socket(socket.AF_UNIX, kind), path)


def _connect(sock: socket.socket, place: Any) -> socket.socket:
    """Connect a socket, or close it if that fails or is interrupted."""
    end = time.monotonic() + CONNECT_SECONDS
    interruption = find_interruption()
    try:
        sock.settimeout(CONNECT_SECONDS)
        interruption.watch(sock)
        while True:
            try:
                sock.connect(place)
            except BlockingIOError as error:  # no timeout of a socket waits for a full queue
                if time.monotonic() > end:
                    raise TimeoutError("its queue stays full") from error
                interruption.sleep(_PAUSE_SECONDS)
            else:
                return sock
    except BaseException:
        sock.close()
        interruption.check()  # it may be why this failed
        raise
    finally:
        interruption.release()


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
