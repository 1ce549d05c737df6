"""HTTP over `http.client`, which writes and reads the heads.

Bodies do not pass through it: they are sent from, and received into, the caller's memory.
"""

import contextlib
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPConnection
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, urlencode

from ..errors import ServiceTimeout, ServiceUnreachable
from .address import Address
from .answer import Answer, name_failures
from .interruption import Interrupted, Interruption, find_interruption
from .request import Request
from .sockets import CONNECT_SECONDS, connect_socket, is_stale

UNDO_SECONDS: Final = 5.0
"""How long the service may be silent while an interrupted call takes back what it has done: who
presses Ctrl-C does not wait for a whole timeout. Chosen."""

_SMALL_BYTES: Final = 2**16
"""Pieces of bodies are joined up to this size, and sent over TLS in parts of it; chosen."""

_MOST_SECONDS: Final = (2**31 - 1) / 1e3
"""The longest timeout that a socket takes: 25 days."""


class _Connection(HTTPConnection):
    """A connection that keeps the head of a request: it is sent together with a small body."""

    head = b""

    def send(self, data: Any) -> None:
        """Keep the head, which is all that `http.client` is asked to send."""
        self.head = data


class Transport:
    """HTTP/1.1 over TCP, TLS or a Unix socket; may be used by several threads.

    Args:
        address: Where the service is.
        headers: Sent with every request.
        timeout_seconds: The longest silence of the service; None for no limit.
        tls_context: TLS settings; None for the system's certificates.
    """

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float | None,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._tls_context = tls_context or ssl.create_default_context() if address.tls else None
        self._headers = {"Host": address.authority, **headers}
        self._idle: deque[_Connection] = deque()
        self._process = os.getpid()

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._address.url

    @contextlib.contextmanager
    def exchange(
        self, request: Request, *, patience_seconds: float | None = None
    ) -> Iterator[Answer]:
        """Send a request; the answer's body is received within the block.

        Args:
            request: The request; it is undone if the block is interrupted.
            patience_seconds: The longest silence of the service, if shorter than for all requests.

        Raises:
            ServiceUnreachable: There is no answer, or it breaks off within the block.
        """
        interruption = find_interruption()
        call: _Call | None = None
        try:
            connection = self._take_idle() or self._connect()
            seconds = _find_least(self._timeout_seconds, patience_seconds)
            call = _Call(connection, request, interruption, self.url, seconds)
            yield call.ask(self._target(request), {**self._headers, **request.headers})
            interruption.check()
        except BaseException as error:  # Ctrl-C, an interruption, or an error of the caller's
            interrupted = interruption.take() or isinstance(error, Interrupted)
            if call is not None and (interrupted or not isinstance(error, ServiceUnreachable)):
                call.undo(_find_least(self._timeout_seconds, UNDO_SECONDS))
            if interrupted:
                raise Interrupted from error
            raise
        finally:
            is_free = interruption.release()
            if call is not None and call.is_over and is_free:
                self._idle.append(connection)
            elif call is not None:
                call.close()

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> _Connection | None:
        """An idle connection of an earlier request; never one of a parent process."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self.close()
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was quicker
                connection = self._idle.pop()
                if not is_stale(connection.sock):
                    return connection
                connection.close()
        return None

    def _connect(self) -> _Connection:
        connection = _Connection(self._address.host or "localhost", self._address.port)
        try:
            connection.sock = connect_socket(self._address, self._tls_context)
        except TimeoutError as error:
            reason = f"no connection after {CONNECT_SECONDS:g} s"
            raise ServiceTimeout(self.url, reason) from error
        except OSError as error:
            raise ServiceUnreachable(self.url, error.strerror or error) from error
        return connection

    def _target(self, request: Request) -> str:
        query = {name: _show(value) for name, value in request.query.items() if value is not None}
        path = self._address.prefix + quote(request.path)
        return f"{path}?{urlencode(query)}" if query else path


class _Call:
    """One request on a connection, and its answer.

    Args:
        connection: The connection.
        request: The request.
        interruption: What interrupts it.
        url: Address of the service.
        timeout_seconds: How long the service may be silent.
    """

    def __init__(
        self,
        connection: _Connection,
        request: Request,
        interruption: Interruption,
        url: str,
        timeout_seconds: float | None,
    ) -> None:
        self._connection = connection
        self._sock: socket.socket = connection.sock
        self._request = request
        self._interruption = interruption
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._limit = None if timeout_seconds is None else min(timeout_seconds, _MOST_SECONDS)
        self._size_bytes = self._left_bytes = request.body.size_bytes if request.body else 0
        self._is_tls = isinstance(self._sock, ssl.SSLSocket)
        self._answer: Answer | None = None

    @property
    def is_over(self) -> bool:
        """Whether the answer has arrived completely, and the connection can carry another call."""
        return not self._left_bytes and self._answer is not None and self._answer.is_reusable

    def ask(self, target: str, headers: Mapping[str, str]) -> Answer:
        """Send the request and receive the head of its answer.

        The service may answer, or close the connection, before it has taken the whole body.
        """
        body = self._request.body
        head = self._make_head(target, headers)
        self._left_bytes += len(head)
        pieces = join_small(chain([head], body.read_pieces() if body else ()))
        # Without TLS `_has_room` waits.
        self._sock.settimeout(self._limit if self._is_tls else 0)
        all(map(self._send_piece, pieces))
        self._sock.settimeout(self._limit)
        return self._receive()

    def undo(self, timeout_seconds: float | None) -> None:
        """Take back what the service may have done; what fails on the way is ignored.

        Before it has the whole request, the service does nothing.

        Args:
            timeout_seconds: How long to wait for an answer that has not arrived yet.
        """
        if self._request.undo is None or self._left_bytes:
            return
        with contextlib.suppress(Exception):
            self._sock.settimeout(timeout_seconds)
            self._request.undo(self._answer or self._receive())

    def close(self) -> None:
        """Close the connection."""
        if self._answer is not None:
            self._answer.close()
        self._connection.close()

    def _make_head(self, target: str, headers: Mapping[str, str]) -> bytes:
        connection, method = self._connection, self._request.method
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value.encode())
        if self._request.body is not None:
            connection.putheader("Content-Length", str(self._size_bytes))
        connection.endheaders()
        return connection.head

    def _send_piece(self, piece: bytes | memoryview) -> bool:
        """Send a piece and report the progress; False if the service takes no more."""
        is_last = len(piece) == self._left_bytes
        grace_seconds = UNDO_SECONDS if self._request.undo is not None and is_last else 0.0
        self._interruption.watch(self._sock, grace_seconds)
        # A piece over TLS is sent as a whole, or not in time.
        most_bytes = _SMALL_BYTES if self._is_tls else len(piece)
        view = memoryview(piece)
        with name_failures(self._url, self._timeout_seconds):
            while view:
                try:
                    view = view[self._sock.send(view[:most_bytes]) :]
                except BlockingIOError:
                    if not self._has_room():
                        return False
                except TimeoutError:
                    raise
                except OSError:
                    return False  # closed; the service may have sent an answer before
        self._left_bytes -= len(piece)
        on_progress = self._request.on_progress
        if on_progress is not None and self._left_bytes < self._size_bytes:
            on_progress(self._size_bytes - self._left_bytes, self._size_bytes)
        return True

    def _has_room(self) -> bool:
        """Wait until the service takes bytes; False if it answers before.

        Over TLS this is not asked, as the bytes that arrive may be TLS's own.

        Raises:
            TimeoutError: It does neither.
        """
        poll = select.poll()
        poll.register(self._sock, select.POLLIN | select.POLLOUT)
        found = poll.poll(None if self._limit is None else self._limit * 1e3)
        if not found:
            raise TimeoutError
        return not found[0][1] & ~select.POLLOUT

    def _receive(self) -> Answer:
        with name_failures(self._url, self._timeout_seconds):
            response = self._connection.getresponse()
        self._answer = Answer(response, self._url, self._timeout_seconds)
        return self._answer


def join_small(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The pieces, with consecutive small ones joined."""
    small: list[bytes | memoryview] = []
    small_bytes = 0
    for piece in pieces:
        if small and small_bytes + len(piece) > _SMALL_BYTES:
            yield b"".join(small)
            small, small_bytes = [], 0
        if len(piece) > _SMALL_BYTES:
            yield piece
            continue
        small.append(piece)
        small_bytes += len(piece)
    if small:
        yield b"".join(small)


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _find_least(*limits: float | None) -> float | None:
    """The least of limits; None stands for no limit."""
    return min((limit for limit in limits if limit is not None), default=None)
