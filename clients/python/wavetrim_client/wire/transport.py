"""HTTP/1.1 over sockets of our own.

h11 writes and reads the heads. Bodies do not pass through it: they are sent from, and received
into, the caller's memory. Only chunked answers, which proxies may send, are parsed by h11.
"""

import contextlib
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from itertools import chain
from urllib.parse import quote, urlencode

import h11

from ..errors import ServiceTimeout, ServiceUnreachable
from .address import Address
from .answer import HEAD_BYTES, Answer
from .network import Network
from .request import Request
from .stream import Stream, StreamBroken, StreamSilent, join_small, open_stream


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
    async def exchange(self, request: Request) -> AsyncIterator[Answer]:
        """Send a request; the answer's body is received within the block.

        Raises:
            ServiceUnreachable: There is no answer, or it breaks off within the block.
        """
        answer: Answer | None = None
        stream: Stream | None = None
        try:
            stream = self._take_idle() or await open_stream(
                self._address,
                self.network,
                timeout_seconds=self._timeout_seconds,
                tls_context=self._tls_context,
            )
            answer = await self._ask(stream, request)
            yield answer
        except StreamSilent as error:
            raise ServiceTimeout(self.url, error) from error
        except (StreamBroken, h11.RemoteProtocolError) as error:
            raise ServiceUnreachable(self.url, error) from error
        finally:
            if stream is not None:
                if answer is not None and answer.is_reusable:
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

    async def _ask(self, stream: Stream, request: Request) -> Answer:
        """Send a request and receive the head of its answer."""
        protocol = h11.Connection(h11.CLIENT)
        head = protocol.send(
            h11.Request(
                method=request.method, target=self._target(request), headers=self._describe(request)
            )
        )
        assert head is not None, "h11 writes a head"
        sending = _Sending(head, request)
        try:
            taken = await self._send(stream, sending)
            return await Answer.receive(stream, protocol, reusable=taken)
        except (StreamBroken, h11.RemoteProtocolError):
            raise
        except BaseException:  # Ctrl-C, or a task that is cancelled
            if request.undo is not None and not sending.left_bytes:
                with contextlib.suppress(Exception):
                    await request.undo(await Answer.receive(stream, protocol, reusable=False))
            raise

    async def _send(self, stream: Stream, sending: "_Sending") -> bool:
        """Send a request; False if the service answers before it has taken all of it."""
        while sending.left_bytes:
            piece = await self.network.compute(sending.read) if sending.waits else sending.read()
            if not await stream.send(piece):
                return False
            sending.note(len(piece))
        return True

    def _target(self, request: Request) -> str:
        query = {name: _show(value) for name, value in request.query.items() if value is not None}
        path = self._address.prefix + quote(request.path)
        return f"{path}?{urlencode(query)}" if query else path

    def _describe(self, request: Request) -> list[tuple[bytes, bytes]]:
        headers = [*self._headers, *_encode(request.headers)]
        if request.body is not None:
            headers.append((b"Content-Length", b"%d" % request.body.size_bytes))
        return headers


class _Sending:
    """A request that is being sent.

    Attributes:
        waits: Whether reading a piece may wait for a disk.
        left_bytes: Bytes that are still to be sent; at 0 the service may act.
    """

    def __init__(self, head: bytes, request: Request) -> None:
        body = request.body
        self._pieces = join_small(chain((head,), body.read_pieces() if body else ()), HEAD_BYTES)
        self._size_bytes = body.size_bytes if body else 0
        self._on_progress = request.on_progress
        self.waits = body is not None and body.waits
        self.left_bytes = len(head) + self._size_bytes

    def read(self) -> bytes | memoryview:
        """The next piece."""
        return next(self._pieces)

    def note(self, count: int) -> None:
        """Count bytes that were sent, and report the progress."""
        self.left_bytes -= count
        if self._on_progress is not None and self.left_bytes < self._size_bytes:
            self._on_progress(self._size_bytes - self.left_bytes, self._size_bytes)


def _encode(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode()) for name, value in headers.items()]


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
