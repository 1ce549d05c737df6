"""One request and its answer on a connection, with two ASGI extensions for the application."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from wavetrim.service.api.wire.body_pull import BodyCutOff, BodyPull, BodySilent

if TYPE_CHECKING:
    from wavetrim.service.api.wire.connection import WireProtocol

RECEIVE_INTO: Final = "wavetrim.receive_into"
"""Name of the ASGI extension `Exchange.receive_into`, which only bodies of known length have."""

DRAINED: Final = "wavetrim.drained"
"""Name of the ASGI extension `Exchange.drained`, which waits until all has left."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim answer, after which a client goes on and waits for the final one."""

_JOINED_BYTES: Final = 2**16
"""Longest first part of a body that is sent in one write with the answer's head; chosen."""

_PAUSE_SECONDS: Final = 0.001

_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


_LEAST_BYTES_PER_SECOND: Final = 2**16
"""Least rate at which an answer must be taken while it is waited for; chosen. What it is sent from
stays in memory as long."""


class Exchange(asyncio.Transport):
    """The transport of uvicorn's cycle for one request, with two ASGI extensions.

    It holds back the answer's head until the first part of the body comes, so that both are one
    write. And it closes a connection so that the client sees its answer.

    Args:
        connection: The connection.
        cycle: uvicorn's object for the request.
        left_bytes: The body's length; None if it is not known before its end.
    """

    def __init__(
        self, connection: "WireProtocol", cycle: RequestResponseCycle, left_bytes: int | None
    ) -> None:
        super().__init__()
        self._connection = connection
        self._cycle = cycle
        self._left_bytes = left_bytes
        self._pull: BodyPull | None = None
        self._head: bytes | None = None
        self._waited_seconds, self._taken_bytes = 0.0, 0  # how fast the client takes the answer
        # An answer before the body's end closes the connection, as the rest may never come.
        self._keep_alive = cycle.keep_alive
        cycle.keep_alive = False
        self._on_response = cycle.on_response
        cycle.on_response = self._complete

    # What uvicorn's cycle calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes, but holds back the answer's head until the next write."""
        if self._cycle.chunked_encoding and self._cycle.scope["http_version"] == "1.0":
            data = _join_chunk(bytes(data), is_head=self._head is None)
        if self._head is None and self._cycle.response_started:
            self._head = bytes(data)
        elif self._head and len(data) <= _JOINED_BYTES:
            joined, self._head = b"".join((self._head, data)), b""
            self._connection.transport.write(joined)
        else:
            self._flush()
            self._connection.transport.write(data)

    def is_closing(self) -> bool:
        """True when the connection is closing or closed."""
        return self._connection.transport.is_closing()

    def close(self) -> None:
        """Closes the connection; a client that still sends has time to see the answer."""
        self._flush()
        still_sends = self._cycle.more_body or self._connection.refusing
        if self._cycle.response_complete and still_sends and not self.is_closing():
            left_bytes = self._left_bytes if self._cycle.more_body else None
            if self._pull is not None:
                self._pull.give_up()
                left_bytes = self._pull.left_bytes
            self._connection.linger(left_bytes)
        else:
            self._connection.transport.close()

    # What the connection calls.

    def count_body(self, count: int) -> None:
        """Counts bytes of the body that uvicorn has received."""
        if self._left_bytes is not None:
            self._left_bytes -= count

    def end_body(self) -> None:
        """The body's last byte has come, so another request may follow."""
        if not self._cycle.response_started:
            self._cycle.keep_alive = self._keep_alive

    def forbid_keep_alive(self) -> None:
        """Have the connection end with this answer."""
        self._keep_alive = self._cycle.keep_alive = False

    # What the application calls.

    async def receive_into(self, view: memoryview, *, idle_seconds: float | None = None) -> int:
        """Receives the body's next bytes into the caller's memory.

        It may be called again for the next bytes. ASGI's `receive` does not deliver these bytes
        again; after the body's end it waits for the client to leave. However this call ends,
        nothing is written into the view afterwards.

        Args:
            view: Where the bytes go: one dimension of bytes.
            idle_seconds: How long the client may be silent; None for no limit.

        Returns:
            How many bytes were received: the view's length, or less at the body's end.

        Raises:
            BodyCutOff: The connection was lost; a ConnectionResetError.
            BodySilent: The client was silent for too long; a TimeoutError.
        """
        cycle = self._cycle
        if cycle.disconnected or cycle.response_complete:
            raise BodyCutOff(0)
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            if not self.is_closing():
                self._connection.transport.write(CONTINUE)
        taken = self._take_buffered(view)
        if taken == len(view) or not cycle.more_body:
            return taken
        if self._pull is None:
            assert self._left_bytes is not None, "offered only if the length is known"
            self._pull = self._connection.lend(self._left_bytes, self._end_pull)
        try:
            return taken + await self._pull.fill(view[taken:], idle_seconds)
        except (BodyCutOff, BodySilent) as error:
            error.received_bytes += taken
            raise

    async def drained(self, *, idle_seconds: float | None = None) -> bool:
        """Waits until everything that was sent has left this process.

        After that nobody reads the memory that it was sent from.

        Args:
            idle_seconds: How long the client may receive nothing, or less than 64 KiB a second,
                before the connection is aborted.

        Returns:
            True when it has left; False when the connection was lost.
        """
        # Under TLS uvloop drops bytes for a lost connection, and only later reports the loss.
        await asyncio.sleep(0)
        transport, flow = self._connection.transport, self._connection.flow
        clock = asyncio.get_running_loop().time
        least_bytes, moved_at = transport.get_write_buffer_size(), clock()
        looked_at = moved_at
        while not self._connection.lost:
            waiting_bytes, now = transport.get_write_buffer_size(), clock()
            moved_bytes = max(0, least_bytes - waiting_bytes)
            self._waited_seconds += now - looked_at
            self._taken_bytes += moved_bytes
            if not (waiting_bytes or flow.write_paused or self.is_closing()):
                return True
            looked_at = now
            if moved_bytes:
                least_bytes, moved_at = waiting_bytes, now
            if idle_seconds is not None and (
                now >= moved_at + idle_seconds or self._is_slow(idle_seconds)
            ):
                transport.abort()
                idle_seconds = None
            if flow.write_paused:
                with suppress(TimeoutError):
                    async with asyncio.timeout(idle_seconds):
                        await flow.drain()
            else:
                # Wait for a last byte, which causes no backpressure, or for the end's report.
                await asyncio.sleep(_PAUSE_SECONDS)
        return False

    def _is_slow(self, over_seconds: float) -> bool:
        """Whether the client took too little; it is counted anew after each such time."""
        if self._waited_seconds < over_seconds:
            return False
        slow = self._taken_bytes < self._waited_seconds * _LEAST_BYTES_PER_SECOND
        self._waited_seconds, self._taken_bytes = 0.0, 0
        return slow

    def _complete(self) -> None:
        self._flush()  # an answer to HEAD has nothing after its head
        self._on_response()

    def _flush(self) -> None:
        """Writes the answer's head if it is held back."""
        if self._head:
            head, self._head = self._head, b""
            if not self.is_closing():
                self._connection.transport.write(head)

    def _take_buffered(self, view: memoryview) -> int:
        """Takes what the parser has already delivered."""
        body = self._cycle.body
        count = min(len(view), len(body))
        if count:
            with memoryview(body) as delivered:
                view[:count] = delivered[:count]
            del body[:count]
        return count

    def _end_pull(self) -> None:
        self._left_bytes, self._pull = 0, None
        self._cycle.more_body = False
        self.end_body()
        self._cycle.message_event.set()
        self._connection.take_back()


def _join_chunk(written: bytes, *, is_head: bool) -> bytes:
    """What uvicorn writes of an answer in chunks, for HTTP/1.0, where the connection ends it."""
    if is_head:
        return written.replace(_CHUNKED, b"", 1)
    length, _, chunk = written.partition(b"\r\n")
    return chunk[: int(length or b"0", 16)]
