"""One request and its answer on a connection, beside what ASGI has for the application."""

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from wavetrim.service.api.wire.body_pull import IDLE_SECONDS, BodyPull

if TYPE_CHECKING:
    from wavetrim.service.api.wire.connection import WireProtocol

EXCHANGE: Final = "wavetrim.exchange"
"""Key of a request's `Exchange` in its ASGI scope."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim answer, after which a client goes on and waits for the final one."""

SMALL_ANSWER_BYTES: Final = 2**16
"""Longest body, or first part of one, that is sent in one write with the answer's head; chosen."""

_PACKET_BYTES: Final = 2**16
"""More than a packet holds, even on the loopback device."""

_PAUSE_SECONDS: Final = 0.001

_CHUNKED: Final = b"transfer-encoding: chunked\r\n"

_LEAST_BYTES_PER_SECOND: Final = 2**16
"""The least rate at which a client must read an answer; chosen. The memory that it is sent from
stays in use as long."""


class Exchange(asyncio.Transport):
    """The transport of uvicorn's cycle for one request.

    It holds back the answer's head until the first part of the body comes, so that both are one
    write. And it closes a connection so that the client sees its answer.

    The application can do two things with it that ASGI does not have: receive a body into its own
    memory, and wait until an answer has left.

    Args:
        connection: The connection.
        cycle: uvicorn's object for the request.
        length_bytes: The body's length, 0 without a body; None if it comes in chunks.

    Attributes:
        length_bytes: The same.
        left_bytes: Bytes of a body of known length that are still to come.
    """

    def __init__(
        self, connection: "WireProtocol", cycle: RequestResponseCycle, length_bytes: int | None
    ) -> None:
        super().__init__()
        self._connection = connection
        self._cycle = cycle
        self.length_bytes = length_bytes
        self.left_bytes = length_bytes or 0
        self._pull: BodyPull | None = None
        self._head: bytes | None = None
        self._waited_seconds, self._taken_bytes = 0.0, 0  # how fast the client takes the answer
        # An answer before the body's end closes the connection, as the rest may never come.
        self._keep_alive = cycle.keep_alive
        cycle.keep_alive = False

    # What uvicorn's cycle calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes, but holds back the answer's head until the next write."""
        if self._cycle.chunked_encoding and self._cycle.scope["http_version"] == "1.0":
            data = _join_chunk(bytes(data), is_head=self._head is None)
        is_head = self._head is None and self._cycle.response_started
        if is_head and self._cycle.scope["method"] != "HEAD":  # whose answer has nothing else
            self._head = bytes(data)
        elif self._head and len(data) <= SMALL_ANSWER_BYTES:
            joined, self._head = b"".join((self._head, data)), b""
            self._connection.transport.write(joined)
        else:
            self._write_head()
            self._connection.transport.write(data)

    def is_closing(self) -> bool:
        """True when the connection is closing or closed."""
        return self._connection.transport.is_closing()

    def close(self) -> None:
        """Closes the connection; a client that still sends has time to see the answer."""
        self._write_head()
        still_sends = self._cycle.more_body or self._connection.refusing
        if self._cycle.response_complete and still_sends and not self.is_closing():
            if self._pull is not None:
                self._pull.give_up()
            is_known = self._cycle.more_body and self.length_bytes is not None
            self._connection.linger(self.left_bytes if is_known else None)
        else:
            self._connection.transport.close()

    # What the connection calls.

    def end_body(self) -> None:
        """The body's last byte has come, so another request may follow."""
        if not self._cycle.response_started:
            self._cycle.keep_alive = self._keep_alive

    def forbid_keep_alive(self) -> None:
        """Have the connection end with this answer."""
        self._keep_alive = self._cycle.keep_alive = False

    def end_pull(self) -> None:
        """A body that was pulled has ended: the connection goes on."""
        self._pull, self._cycle.more_body = None, False
        self.end_body()
        self._cycle.message_event.set()
        self._connection.take_back()

    # What the application calls.

    def acknowledge(self) -> None:
        """Has received bytes acknowledged at once if only the body's last packet is missing.

        A client without TCP_NODELAY holds back that packet, as it is short, until all earlier ones
        are acknowledged. The system would delay the acknowledgement by 40 ms, to send it with data.
        """
        if not 0 < self.left_bytes < _PACKET_BYTES:
            return
        found = self._connection.transport.get_extra_info("socket")
        if found is not None and found.family != socket.AF_UNIX:
            # A connection may be lost, its descriptor closed, before its protocol is told.
            with suppress(OSError, ValueError):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    @property
    def received_bytes(self) -> int:
        """How many bytes of a body of known length have come."""
        return (self.length_bytes or 0) - self.left_bytes

    async def receive_into(self, view: memoryview) -> int:
        """Receives the next bytes of a body of known length into the caller's memory.

        It may be called again for the next bytes. ASGI's `receive` does not deliver these bytes
        again; after the body's end it waits for the client to leave. However this call ends,
        nothing is written into the view afterwards.

        Args:
            view: Where the bytes go: one dimension of bytes.

        Returns:
            How many bytes were received: the view's length, or less at the body's end.

        Raises:
            ClientDisconnect: The connection was lost.
            UploadStalled: The client was silent for too long, or too slow.
        """
        cycle = self._cycle
        if cycle.disconnected or cycle.response_complete:
            raise ClientDisconnect
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            if not self.is_closing():
                self._connection.transport.write(CONTINUE)
        taken = min(len(view), len(cycle.body))  # of what the parser has delivered already
        with memoryview(cycle.body) as delivered:
            view[:taken] = delivered[:taken]
        del cycle.body[:taken]
        if taken == len(view) or not cycle.more_body:
            return taken
        if self._pull is None:
            self._pull = BodyPull(self._connection, self)
        return taken + await self._pull.fill(view[taken:])

    def abort(self) -> None:
        """Breaks the connection off."""
        self._connection.transport.abort()

    async def drained(self) -> bool:
        """Waits until everything that was sent has left this process.

        After that nobody reads the memory that it was sent from. The connection is aborted when the
        client has received nothing, or less than 64 KiB a second, for `IDLE_SECONDS`.

        Returns:
            True when it has left; False when the connection was lost.
        """
        # Under TLS uvloop drops bytes for a lost connection, and only later reports the loss.
        await asyncio.sleep(0)
        transport, flow = self._connection.transport, self._connection.flow
        clock = asyncio.get_running_loop().time
        least_bytes, moved_at = transport.get_write_buffer_size(), clock()
        looked_at, is_aborted = moved_at, False
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
            if not is_aborted and (now >= moved_at + IDLE_SECONDS or self._is_slow()):
                self.abort()
                is_aborted = True
            if flow.write_paused:
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if is_aborted else IDLE_SECONDS):
                        await flow.drain()
            else:
                # Wait for a last byte, which causes no backpressure, or for the end's report.
                await asyncio.sleep(_PAUSE_SECONDS)
        return False

    def _is_slow(self) -> bool:
        """Whether the client took too little; it is counted anew after each such time."""
        if self._waited_seconds < IDLE_SECONDS:
            return False
        slow = self._taken_bytes < self._waited_seconds * _LEAST_BYTES_PER_SECOND
        self._waited_seconds, self._taken_bytes = 0.0, 0
        return slow

    def _write_head(self) -> None:
        """Writes the answer's head if it is held back."""
        if self._head:
            head, self._head = self._head, b""
            if not self.is_closing():
                self._connection.transport.write(head)


def _join_chunk(written: bytes, *, is_head: bool) -> bytes:
    """What uvicorn writes of an answer in chunks, for HTTP/1.0, where the connection ends it."""
    if is_head:
        return written.replace(_CHUNKED, b"", 1)
    length, _, chunk = written.partition(b"\r\n")
    return chunk[: int(length or b"0", 16)]
