"""Where the service listens: TCP, with TLS or without, a Unix socket, or both."""

import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator

from wavetrim.service.errors import ServiceError, SettingRefused
from wavetrim.service.server.unix_socket import BACKLOG, claim_socket
from wavetrim.service.settings import Settings

Listener = tuple[socket.socket, ssl.SSLContext | None]
"""A socket, and how its connections are encrypted; None if they are not."""


@contextlib.contextmanager
def listen(settings: Settings) -> Iterator[list[Listener]]:
    """Listens where the settings say, until the block ends.

    A Unix socket is not encrypted, as it does not leave the machine.

    Raises:
        ServiceError: The address cannot be listened on.
        SettingRefused: The Unix socket, the certificate or the key cannot be used.
    """
    if settings.tcp == "off" and settings.unix_socket is None:
        raise SettingRefused("tcp", settings.tcp, "on as long as there is no unix_socket")
    tls = _load_certificate(settings)
    listeners: list[Listener] = []
    with contextlib.ExitStack() as stack:
        if settings.tcp == "on":
            listeners.append((stack.enter_context(_listen_tcp(settings)), tls))
        if settings.unix_socket is not None:
            listeners.append((stack.enter_context(claim_socket(settings.unix_socket)), None))
        yield listeners


def _listen_tcp(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = (settings.host, settings.port)
    try:
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        # The messages of asyncio and of the socket module repeat the address.
        reason = str(error.strerror).partition(" (while")[0]
        message = f"cannot listen on {settings.host} port {settings.port}: {reason}"
        raise ServiceError(f"{message}; {_tell_way_out(error)}") from error


def _tell_way_out(error: OSError) -> str:
    """What to change: an option, or the setting where the command is not at hand."""
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        return "--port or WAVETRIM_PORT takes another one, or 0 for a free one"
    return "--host or WAVETRIM_HOST takes an address of this machine, or 0.0.0.0 for all of them"


def _load_certificate(settings: Settings) -> ssl.SSLContext | None:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        name = "tls_key" if key is None else "tls_certificate"
        raise SettingRefused(name, None, "given where its counterpart is")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password OpenSSL would ask on the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        limit = f"a PEM certificate that its unencrypted tls_key belongs to ({error})"
        raise SettingRefused("tls_certificate", str(certificate), limit) from error
    return context
