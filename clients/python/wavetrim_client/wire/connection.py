"""One connection: a request and its answer, on a socket of any kind.

Bodies go from and into the caller's memory. `http.client` reads the answers.
"""

import contextlib
import json
import select
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

from ..errors import ServiceTimeout, ServiceUnreachable
from .address import CONNECT_SECONDS, Address, connect_to
from .interruption import find_interruption

PIECE_BYTES: Final = 2**20
"""Bodies are read and written in pieces of about this size, so that a caller sees progress;
chosen."""

UNDO_SECONDS: Final = 5.0
"""How long the service may be silent while an interrupted call takes back what it has done: who
presses Ctrl-C does not wait for a whole timeout. Chosen."""

_SMALL_BYTES: Final = 2**17
"""Pieces are joined up to this size; chosen: a small request is sent at once."""

_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
"""OpenSSL's reasons where a server speaks something else."""

NPY: Final = "application/x-npy"
"""The media type of .npy files."""


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to be sent.

    Attributes:
        size_bytes: How many.
        read_pieces: Reads them from their start, in pieces; called again if they are sent again.
        media_type: What they are.
    """

    size_bytes: int
    read_pieces: Callable[[], Iterator[bytes | memoryview]]
    media_type: str = NPY


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the service.

    Attributes:
        method: HTTP method.
        path: Path of the route.
        query: Query parameters; those that are None are left out, lists are repeated.
        headers: Headers besides those of every request.
        body: The body; None for none.
        repeatable: Whether it may be sent again after its connection broke, because it changes
            nothing, or because the service recognizes a repetition.
        undo: Takes back what the service has done if the caller is interrupted after the whole
            request was sent; receives the answer's JSON.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    repeatable: bool = False
    undo: Callable[[Any], None] | None = None


class Answer(HTTPResponse):
    """The answer to a request, whose body is still to be received.

    Attributes:
        name_failures: Raises failures of the connection as errors of the client.
        content: What `receive` has received.
    """

    name_failures: Callable[[], contextlib.AbstractContextManager[None]]
    content = b""

    def receive_into(self, view: memoryview) -> int:
        """Receive some of the body into memory; returns how many bytes, 0 at its end."""
        with self.name_failures():
            count = self.readinto(view)
            if count == 0 and self.length:
                raise ConnectionError(f"the answer ends {self.length} bytes too early")
        return count

    def receive(self) -> bytes:
        """The body; may be called again."""
        with self.name_failures():
            self.content += self.read()
        return self.content


class _Closed(Exception):
    """The service takes no more of a request; it may have answered before."""


class Connection:
    """A connection to the service, for one request after the other."""

    def __init__(self, address: Address) -> None:
        self._url = address.url
        self._seconds = CONNECT_SECONDS
        with self._name_failures():
            self.sock = connect_to(address)
        self._is_sent = False
        self._answer: Answer | None = None

    @property
    def is_free(self) -> bool:
        """Whether the answer has arrived completely, and another request can be sent."""
        answer = self._answer
        return self._is_sent and answer is not None and answer.isclosed() and not answer.will_close

    def ask(self, request: Request, head: bytes, seconds: float) -> Answer:
        """Send a request, of which the head is written, and receive the head of its answer.

        The service may answer, or close the connection, before it has taken the whole body.
        """
        self._is_sent, self._answer = False, None
        self._limit_silence(seconds)
        interruption = find_interruption()
        interruption.watch(self.sock)
        if isinstance(self.sock, ssl.SSLSocket):
            with self._name_failures():
                self.sock.do_handshake()  # of a first request
        held = bytearray(head)
        with contextlib.suppress(_Closed):
            for piece in request.body.read_pieces() if request.body else ():
                if len(held) + len(piece) <= _SMALL_BYTES:
                    held += piece
                    continue
                self._send(held)
                self._send(piece)
                held = bytearray()
            interruption.watch(self.sock, grace_seconds=UNDO_SECONDS if request.undo else 0.0)
            self._send(held)
            self._is_sent = True
        return self._receive()

    def close(self) -> None:
        """Close the connection, and what is left of the answer."""
        if self._answer is not None:
            self._answer.close()
        self.sock.close()

    def undo(self, request: Request, seconds: float) -> None:
        """Take back what the service has done; what fails on the way is ignored.

        Before it has the whole request, the service does nothing.
        """
        if request.undo is None or not self._is_sent:
            return
        with contextlib.suppress(Exception):
            self._limit_silence(seconds)
            answer = self._receive()
            if 200 <= answer.status < 300:
                request.undo(json.loads(answer.receive()))

    def _limit_silence(self, seconds: float) -> None:
        self._seconds = seconds
        self.sock.settimeout(seconds)

    def _send(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        with self._name_failures():
            try:
                if len(view) <= _SMALL_BYTES or isinstance(self.sock, ssl.SSLSocket):
                    self.sock.sendall(view)
                    return
                while view:
                    self._wait_for_room()
                    view = view[self.sock.send(view) :]
            except TimeoutError:
                raise
            except OSError as error:
                raise _Closed from error

    def _wait_for_room(self) -> None:
        """Wait until the service takes bytes; raises `_Closed` if it answers before.

        Over TLS this is not asked, as the bytes that arrive may be TLS's own.
        """
        poll = select.poll()
        poll.register(self.sock, select.POLLIN | select.POLLOUT)
        found = poll.poll(self._seconds * 1e3)
        if not found:
            raise TimeoutError
        if found[0][1] & ~select.POLLOUT:
            raise _Closed

    def _receive(self) -> Answer:
        """The answer, of which the head is received if it was not."""
        if self._answer is None:
            self._answer = Answer(self.sock)
            self._answer.name_failures = self._name_failures
        with self._name_failures():
            self._answer.begin()
        return self._answer

    @contextlib.contextmanager
    def _name_failures(self) -> Iterator[None]:
        """Raise failures of the connection as errors of the client."""
        try:
            yield
        except TimeoutError as error:
            raise ServiceTimeout(self._url, f"silent for {self._seconds:g} s") from error
        except OSError as error:
            reason: object = error.strerror or error
            if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
                reason = "it speaks no TLS; an address with http:// may be right"
            raise ServiceUnreachable(self._url, reason) from error
        except HTTPException as error:
            raise ServiceUnreachable(self._url, error or type(error).__name__) from error
