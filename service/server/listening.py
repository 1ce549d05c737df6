"""Where the service listens: TCP, with TLS or without, a Unix socket, or both.

A Unix socket belongs to one service at a time, and to its user alone.
"""

import contextlib
import errno
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wavetrim.service.errors import ServiceError, SettingRefused
from wavetrim.service.settings import Settings
from wavetrim.service.storage.lock_file import LockTaken, describe_process, take_lock

BACKLOG: Final = 2048
"""Connections that may wait to be accepted; a Unix socket refuses any more, unlike TCP."""

_MAX_PATH_BYTES: Final = 107
"""The longest path in the kernel's `sockaddr_un`."""

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


@contextlib.contextmanager
def claim_socket(path: Path, *, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    """Listens on a Unix socket at `path`, mode 0600, and removes it at the end.

    A socket that an ended service has left is replaced. A lock in a file of its own, `<path>.lock`,
    tells it from one that is in use; the lock ends with the process, however it ends, and its file
    stays.

    Args:
        path: Where the socket is; its folder is made, mode 0700, when it is missing.
        kind: SOCK_STREAM, or SOCK_SEQPACKET for one that keeps packets apart.

    Raises:
        SettingRefused: Somebody else listens there, or something else lies there.
    """
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise _refuse(path, f"a path of at most {_MAX_PATH_BYTES} bytes")
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = take_lock(path.with_name(f"{path.name}.lock"), describe_process())
            stack.callback(os.close, lock)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            # Before it is bound: at no moment may another user connect.
            os.fchmod(listener.fileno(), 0o600)
            _remove_stale(path, kind)
            listener.bind(str(path))
        except LockTaken as taken:
            raise _refuse(path, "a path where no other running service listens") from taken
        except OSError as error:
            limit = f"a path where a socket can be made ({error.strerror or error})"
            raise _refuse(path, limit) from error
        stack.callback(path.unlink, missing_ok=True)
        listener.listen(BACKLOG)
        yield listener


def _remove_stale(path: Path, kind: int) -> None:
    """Removes the socket of an ended service.

    Raises:
        SettingRefused: It is no socket, or somebody who does not know our lock listens on it.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _refuse(path, "a path that is free; there is a file already")
    with socket.socket(socket.AF_UNIX, kind) as caller:
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise _refuse(path, "a path where nobody else listens")


def _refuse(path: Path, limit: str) -> SettingRefused:
    return SettingRefused("unix_socket", str(path), limit)
