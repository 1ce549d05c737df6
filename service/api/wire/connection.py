"""uvicorn's HTTP protocol, with bodies that are received where their route wants them.

The application asks for a body's bytes when it has looked at the request. Only then the transport
is lent to a `BodyPull`, and it comes back behind the body's last byte: whatever the application
does not pull goes uvicorn's ordinary way.

A head is limited in length, fields and time. Bytes that have ended neither a head nor a part of a
body are counted by the read, before and behind the parser: no field costs anything by itself. And
one timer a connection looks now and then whether a head is late; no request has one of its own.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wavetrim.service.api.problems import describe_error
from wavetrim.service.api.wire.body_pull import BodyPull
from wavetrim.service.api.wire.body_source import RECEIVE_INTO
from wavetrim.service.api.wire.exchange import Exchange
from wavetrim.service.api.wire.head import (
    MAX_HEAD_BYTES,
    WireLimits,
    check_fields,
    check_length,
    describe_late,
    measure_head,
)
from wavetrim.service.api.wire.lingering import Lingering
from wavetrim.service.api.wire.lost_transport import LOST
from wavetrim.service.api.wire.refusal import format_refusal
from wavetrim.service.api.wire.sender import DRAINED
from wavetrim.service.errors import ContentRefused, HeadTooLarge


class WireProtocol(HttpToolsProtocol):
    """A connection. uvicorn makes it, and calls it as its own protocol.

    Attributes:
        limits: What one server takes from its connections.
        lost: True when the connection is gone.
    """

    limits = WireLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lost = False
        self._exchange: Exchange | None = None
        self._lingering = False
        self._refusing = False
        self._refusal: HeadTooLarge | None = None
        self._uncounted_bytes = 0  # since the last end of a head or of a body's part
        self._in_head = True
        self._field_count = 0
        self._head_due: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts; from now on a send waits until the one before it has left the process."""
        super().connection_made(transport)
        # Zero as the upper limit would never be met under TLS.
        transport.set_write_buffer_limits(high=1, low=0)
        self._await_head()
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._check_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends, and lets go of the transport, which whoever knows this connection would keep."""
        self.lost = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # its timers, too, would keep the connection
        if self._head_timer is not None:
            self._head_timer.cancel()
        self.transport = self.flow._transport = LOST

    def data_received(self, data: bytes) -> None:
        """Takes bytes, but not behind a head that is refused."""
        if self._refusing:
            return
        if self.timeout_keep_alive_task is not None:
            self._await_head()
        self._uncounted_bytes += len(data)
        super().data_received(data)
        if self._uncounted_bytes and not self._refusing:
            self._check_unfinished()

    # What the server calls.

    def shutdown(self) -> None:
        """Lets the connection end: now, or with the answer that is under way."""
        if self._lingering:
            return
        if self._exchange is not None:
            self._exchange.forbid_keep_alive()
        super().shutdown()

    # What the parser calls; what is raised here ends in `send_400_response`.

    def on_message_begin(self) -> None:
        """Begins a head."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Starts a request, and gives it its exchange."""
        self._check_head()
        self._uncounted_bytes, self._head_due, self._in_head = 0, None, False
        self._field_count = len(self.headers)
        length, has_body = _find_body(self.headers)
        self._refusing = has_body and self.parser.should_upgrade()
        before, app = self.cycle, self.app
        if self._refusing:
            self.app = _refuse_upgrade
        try:
            super().on_headers_complete()
        finally:
            self.app = app
        if self.cycle is before:
            return  # a WebSocket
        exchange = Exchange(self, self.cycle, length)
        self._exchange = self.cycle.transport = exchange
        extensions: dict[str, Any] = {DRAINED: exchange.drained}
        if length and not self._refusing:
            extensions[RECEIVE_INTO] = exchange.receive_into
        cast("dict[str, Any]", self.scope)["extensions"] = extensions

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body in uvicorn's way."""
        self._uncounted_bytes = 0
        if self._exchange is not None:
            self._exchange.count_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request, unless its body was never looked at."""
        self._uncounted_bytes = 0
        del self.headers[self._field_count :]  # the fields behind a chunked body are no headers
        if self._refusing:
            return
        super().on_message_complete()
        if self._exchange is not None:
            self._exchange.end_body()

    def send_400_response(self, msg: str) -> None:
        """Refuses a head that cannot be read, or is too large."""
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self._refuse(self._refusal)

    # What the cycle and the exchange call.

    def on_response_complete(self) -> None:
        """Ends an answer: the next request, or waiting for one, or the end."""
        if self._lingering:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()

    def lend(self, left_bytes: int, on_end: Callable[[], None]) -> BodyPull:
        """Gives the transport away until the body's last byte.

        Args:
            left_bytes: How much of the body is still to come.
            on_end: Called behind the last byte.
        """
        pull = BodyPull(self, self.transport, left_bytes, on_end)
        self.transport.pause_reading()
        self.transport.set_protocol(pull)
        # Who asks uvicorn to go on reading must not move a transport that is not its own.
        self.flow.read_paused = False
        return pull

    def take_back(self) -> None:
        """Goes on behind a pulled body, of which the parser has not seen the end."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.transport.pause_reading()
        self.transport.set_protocol(self)
        self.transport.resume_reading()

    def linger(self, left_bytes: int | None) -> None:
        """Closes the connection as soon as the client can be expected to have seen the answer.

        Args:
            left_bytes: How much of the request's body is still to come, where it is known.
        """
        self._lingering = True
        self._unset_keepalive_if_required()
        self.transport.pause_reading()
        Lingering(self, self.transport, left_bytes).start()

    # Limits of a head.

    def _await_head(self) -> None:
        self._head_due = self.loop.time() + self.limits.head_seconds

    def _check_head(self) -> None:
        """Makes sure that a complete head is within its limits."""
        try:
            check_fields(len(self.headers))
            if self._uncounted_bytes > MAX_HEAD_BYTES:  # it, or what came with it
                check_length(measure_head(self.url, self.headers))
        except HeadTooLarge as error:
            self._refusal = error
            raise

    def _check_unfinished(self) -> None:
        """Refuses a head, or the fields behind a chunked body, before more of them is kept."""
        try:
            if self._in_head and self.headers is not None:
                check_fields(len(self.headers))
            check_length(self._uncounted_bytes)
        except HeadTooLarge as error:
            self._refuse(error)

    def _check_late(self) -> None:
        """Refuses a head that takes too long; closes a connection that has said nothing."""
        now = self.loop.time()
        due = self._head_due
        if due is None or due > now:
            next_look = now + self.limits.head_seconds if due is None else due
            self._head_timer = self.loop.call_at(next_look, self._check_late)
        elif self._uncounted_bytes:
            self._refuse(describe_late(self._uncounted_bytes, self.limits))
        else:
            self.transport.abort()  # under TLS, close() would wait for the client's farewell

    def _refuse(self, error: Exception) -> None:
        """Answers in the application's place, and ends the connection."""
        self._refusing, self._head_due = True, None
        if self.headers is not None:
            self.headers.clear()
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # another answer is under way
            return
        self.transport.write(format_refusal(error))
        self.linger(None)


def _find_body(headers: list[tuple[bytes, bytes]]) -> tuple[int | None, bool]:
    """A body's length, where it is known, and whether there is a body."""
    length: int | None = None
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            return None, True
    return length, bool(length)


async def _refuse_upgrade(scope: Any, receive: Any, send: Any) -> None:
    """Refuses a body behind a head that asks for another protocol: the parser stops before it."""
    value = dict(scope["headers"]).get(b"upgrade", b"").decode("latin-1")
    error = ContentRefused("Upgrade", value, "left out of a request with a body (HTTP/1.1 only)")
    await describe_error(error)(scope, receive, send)
