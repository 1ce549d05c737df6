"""The socket beside the service's Unix socket, on which leases are handed out.

A caller connects, sends the secret of its lease as one packet, and gets one packet back: a JSON
document, with the descriptor of the lease's memory. The lease ends with the connection, which the
kernel closes when the caller's process ends.
"""

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wavetrim.service.descriptors import Descriptors
from wavetrim.service.errors import Crowded, FieldProblem
from wavetrim.service.storage.memory.leases import Lease, Leases

logger = logging.getLogger(__name__)

SECRET_BYTES: Final = 256
"""Bytes that are read of a secret, more than it has."""

_SECRET_SECONDS: Final = 10.0
"""How long a caller may take to send its secret; chosen."""

_PAUSE_SECONDS: Final = 1.0
"""How long no caller is accepted after the process had no descriptor for one; chosen."""

_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group


def find_lease_socket(unix_socket: Path) -> Path:
    """Where leases are handed out, beside a service's Unix socket."""
    return unix_socket.with_name(f"{unix_socket.name}.leases")


class LeaseSocket:
    """Answers on the socket, in the event loop.

    Args:
        listener: A listening socket that keeps packets apart (SOCK_SEQPACKET).
        leases: What is handed out.
        descriptors: Counts the connections.
    """

    def __init__(self, listener: socket.socket, leases: Leases, descriptors: Descriptors) -> None:
        self._listener = listener
        self._leases = leases
        self._descriptors = descriptors
        self._loop = asyncio.get_running_loop()
        self._callers: set[_Caller] = set()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no more callers, and close all connections.

        The leases are not ended, so that their memory is not given back: a caller that has mapped
        one keeps its bytes when the service stops.
        """
        self._loop.remove_reader(self._listener.fileno())
        if self._pause is not None:
            self._pause.cancel()
        for caller in tuple(self._callers):
            caller.close(keeps_lease=True)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # without descriptors the caller waits; no busy loop
                logger.warning("callers cannot be accepted now: %s", error.strerror)
                self._loop.remove_reader(self._listener.fileno())
                self._pause = self._loop.call_later(_PAUSE_SECONDS, self._listen)
                return
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        try:
            self._take_place()
        except Crowded as error:
            _refuse(connection, error)
            connection.close()
            return
        caller = _Caller(connection, self._leases, self._forget)
        self._callers.add(caller)
        caller.start()

    def _take_place(self) -> None:
        waiting = sum(not caller.has_lease for caller in self._callers)
        if waiting >= self._descriptors.few:
            limit = f"at most {self._descriptors.few} that have sent no secret yet"
            raise Crowded("connections", waiting + 1, limit)
        self._descriptors.take("", "connections for leases")

    def _forget(self, caller: "_Caller") -> None:
        self._callers.discard(caller)
        self._descriptors.give("")


class _Caller:
    """One connection."""

    def __init__(
        self, connection: socket.socket, leases: Leases, forget: Callable[["_Caller"], None]
    ) -> None:
        self._connection = connection
        self._leases = leases
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._lease: Lease | None = None
        self._closed = False
        self._timer = self._loop.call_later(_SECRET_SECONDS, self.close)

    @property
    def has_lease(self) -> bool:
        """Whether it has fetched a descriptor."""
        return self._lease is not None

    def start(self) -> None:
        """Wait for the secret; refuse a caller of another user."""
        self._connection.setblocking(False)
        packed = self._connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        _, user, _ = _CREDENTIALS.unpack(packed)
        if user not in {os.geteuid(), 0}:
            limit = f"{os.geteuid()}, whose service this is"
            self._refuse(FieldProblem("user", user, limit))
            return
        self._loop.add_reader(self._connection.fileno(), self._read)

    def close(self, *, keeps_lease: bool = False) -> None:
        """End the connection, and its lease; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        self._loop.remove_reader(self._connection.fileno())
        self._connection.close()
        self._forget(self)
        if self._lease is not None and not keeps_lease:
            self._leases.end(self._lease)

    def _read(self) -> None:
        """Take the secret. The end of the connection, or a second packet, closes it."""
        try:
            packet = self._connection.recv(SECRET_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            packet = b""
        if not packet or self._lease is not None:
            self.close()
            return
        lease = self._leases.claim(packet.decode("latin-1"))
        if lease is None:
            limit = "one of a lease whose descriptor was not fetched before"
            self._refuse(FieldProblem("token", "…", limit))
            return
        self._timer.cancel()
        self._lease, lease.on_end = lease, self.close
        document = {"id": lease.id, "bytes": lease.slab.size_bytes}
        try:
            socket.send_fds(self._connection, [json.dumps(document).encode()], [lease.slab.fd])
        except OSError:
            self.close()

    def _refuse(self, error: FieldProblem) -> None:
        _refuse(self._connection, error)
        self.close()


def _refuse(connection: socket.socket, error: FieldProblem | Crowded) -> None:
    document = {"field": error.field, "value": error.value, "limit": error.limit}
    try:
        connection.send(json.dumps(document).encode(), socket.MSG_DONTWAIT)
    except OSError:
        logger.debug("a caller has left before it was refused")
