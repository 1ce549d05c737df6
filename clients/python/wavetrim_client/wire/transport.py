"""HTTP/1.1 over sockets of our own.

h11 writes and reads the heads. Bodies do not pass through it: they are sent from, and received
into, the caller's memory. Only chunked answers, which proxies may send, are parsed by h11.
"""

import contextlib
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import chain
from typing import Final
from urllib.parse import quote, urlencode

import h11

from ..errors import ServiceTimeout, ServiceUnreachable
from .address import Address
from .answer import HEAD_BYTES, Answer
from .network import Network
from .request import Request
from .stream import Stream, StreamBroken, StreamSilent, join_small, open_stream

UNDO_SECONDS: Final = 5.0
"""How long the service may be silent while an interrupted call takes back what it has done: who
presses Ctrl-C does not wait for a whole timeout. Chosen."""


class Transport:
    """HTTP/1.1 over TCP, TLS or a Unix socket; may be used by several threads or tasks.

    Args:
        address: Where the service is.
        network: How to wait.
        headers: Sent with every request.
        timeout_seconds: The longest silence of the service; None for no limit.
        tls_context: TLS settings; None for the system's certificates.
    """

    def __init__(
        self,
        address: Address,
        network: Network,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float | None,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self.network: Network = network
        self._timeout_seconds = timeout_seconds
        if address.tls and tls_context is None:
            tls_context = ssl.create_default_context()
        self._tls_context = tls_context
        self._headers = _encode({"Host": address.authority, **headers})
        self._idle: deque[Stream] = deque()
        self._process = os.getpid()

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._address.url

    @contextlib.asynccontextmanager
    async def exchange(
        self, request: Request, *, patience_seconds: float | None = None
    ) -> AsyncIterator[Answer]:
        """Send a request; the answer's body is received within the block.

        Args:
            request: The request; it is undone if the block is interrupted.
            patience_seconds: The longest silence of the service, if shorter than for all requests.

        Raises:
            ServiceUnreachable: There is no answer, or it breaks off within the block.
        """
        stream: Stream | None = None
        call: _Call | None = None
        try:
            stream = self._take_idle() or await self._connect()
            stream.timeout_seconds = _find_least(self._timeout_seconds, patience_seconds)
            call = _Call(stream, request, target=self._target(request), headers=self._headers)
            yield await call.ask(self.network)
        except StreamSilent as error:
            raise ServiceTimeout(self.url, error) from error
        except (StreamBroken, h11.RemoteProtocolError) as error:
            raise ServiceUnreachable(self.url, error) from error
        except GeneratorExit:  # the event loop is gone: nothing can be awaited
            raise
        except BaseException:  # Ctrl-C, a task that is cancelled, or an error of the caller's
            if call is not None:
                await call.undo(_find_least(self._timeout_seconds, UNDO_SECONDS))
            raise
        finally:
            if stream is not None:
                if call is not None and call.is_over:
                    self._idle.append(stream)
                else:
                    stream.close()

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> Stream | None:
        """An idle connection of an earlier request; never one of a parent process."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self.close()
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was quicker
                stream = self._idle.pop()
                if not stream.is_stale():
                    return stream
                stream.close()
        return None

    async def _connect(self) -> Stream:
        return await open_stream(self._address, self.network, tls_context=self._tls_context)

    def _target(self, request: Request) -> str:
        query = {name: _show(value) for name, value in request.query.items() if value is not None}
        path = self._address.prefix + quote(request.path)
        return f"{path}?{urlencode(query)}" if query else path


class _Call:
    """One request on a connection, and its answer.

    Args:
        stream: The connection.
        request: The request.
        target: Its path and query.
        headers: The headers that every request has.
    """

    def __init__(
        self,
        stream: Stream,
        request: Request,
        *,
        target: str,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> None:
        self._stream = stream
        self._request = request
        self._protocol = h11.Connection(h11.CLIENT)
        self._answer: Answer | None = None
        body = request.body
        self._size_bytes = body.size_bytes if body else 0
        fields = [*headers, *_encode(request.headers)]
        if body:
            fields.append((b"Content-Length", b"%d" % self._size_bytes))
        head = self._protocol.send(
            h11.Request(method=request.method, target=target, headers=fields)
        )
        assert head is not None, "h11 writes a head"
        self._pieces = join_small(chain((head,), body.read_pieces() if body else ()), HEAD_BYTES)
        self._left_bytes = len(head) + self._size_bytes

    @property
    def is_over(self) -> bool:
        """Whether the answer has arrived completely, and the connection can carry another call."""
        return self._answer is not None and self._answer.is_reusable

    async def ask(self, network: Network) -> Answer:
        """Send the request and receive the head of its answer."""
        taken = await self._send(network)
        self._answer = await Answer.receive(self._stream, self._protocol, reusable=taken)
        return self._answer

    async def undo(self, timeout_seconds: float | None) -> None:
        """Take back what the service may have done; what fails on the way is ignored.

        Before it has the whole request, the service does nothing.

        Args:
            timeout_seconds: How long to wait for an answer that has not arrived yet.
        """
        if self._request.undo is None or self._left_bytes:
            return
        self._stream.timeout_seconds = timeout_seconds
        with contextlib.suppress(Exception):
            if self._answer is None:
                self._answer = await Answer.receive(self._stream, self._protocol, reusable=False)
            await self._request.undo(self._answer)

    async def _send(self, network: Network) -> bool:
        """Send the request; False if the service answers before it has taken all of it."""
        waits = self._request.body is not None and self._request.body.waits
        while self._left_bytes:
            piece = await network.compute(self._read) if waits else self._read()
            if not await self._stream.send(piece):
                return False
            self._note(len(piece))
        return True

    def _read(self) -> bytes | memoryview:
        """The next piece."""
        return next(self._pieces)

    def _note(self, count: int) -> None:
        """Count bytes that were sent, and report the progress."""
        self._left_bytes -= count
        on_progress = self._request.on_progress
        if on_progress is not None and self._left_bytes < self._size_bytes:
            on_progress(self._size_bytes - self._left_bytes, self._size_bytes)


def _encode(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode()) for name, value in headers.items()]


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _find_least(*limits: float | None) -> float | None:
    """The least of limits; None stands for no limit."""
    return min((limit for limit in limits if limit is not None), default=None)
