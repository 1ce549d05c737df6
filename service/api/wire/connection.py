"""uvicorn's HTTP protocol, with limits, and bodies that are received into memory of their route.

A head is limited in length, fields and time (`checks`). To cost a request little, bytes are counted
at each read and not at each field, and a connection has one timer that looks for a late head.

The application asks for a body's bytes once it has checked the request. Only then a
`BodyPull` takes the transport, until the body's last byte. Other bodies are received by uvicorn.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wavetrim.service.api.checks import check_head, check_size, take_authority
from wavetrim.service.api.wire.exchange import CONTINUE, EXCHANGE, Exchange
from wavetrim.service.api.wire.lingering import LOST, Lingering
from wavetrim.service.api.wire.refusal import HEAD_SECONDS, WireLimits, refuse
from wavetrim.service.errors import (
    Crowded,
    FieldProblem,
    HeadTooLarge,
    RequestMalformed,
    UploadStalled,
)

LINGERING_CONNECTIONS: Final = 4
"""Connections over the limit that are given time to see their refusal; chosen."""

_PROBE_SECONDS: Final = 1.0
"""How often to test whether a client that has closed its sending side is still there; chosen."""

_CHUNKED: Final = b"transfer-encoding: chunked"


class WireProtocol(HttpToolsProtocol):
    """A connection, made and called by uvicorn as its own protocol.

    It is refused and closed when it exceeds its limits.

    Attributes:
        limits: The limits of the server's connections.
        lost: True when the connection is gone.
        refusing: Whether further bytes are no requests, as one was refused.
        in_head: Whether a head is being read.
        head_due: When it must have come; None while none is awaited.
    """

    def __init__(self, *args: Any, limits: WireLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limits = limits
        self.lost = self.refusing = False
        self._read = self._rest = b""  # the bytes that are parsed, and those left after them
        self._exchange: Exchange | None = None
        self._lingering: Lingering | None = None
        self._half_closed = self._begins_body = False
        self._refusal: FieldProblem | None = None
        self._uncounted_bytes = 0  # since the last end of a head or of a body's part
        self.in_head = True
        self._field_count = 0
        self.head_due: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._probe_timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts; each send then waits until the one before it has left the process."""
        super().connection_made(transport)
        # An upper limit of 0 would never be met under TLS.
        transport.set_write_buffer_limits(high=1, low=0)
        self.head_due = self.loop.time() + HEAD_SECONDS
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._check_late)
        descriptors = self.limits.descriptors
        count, most = len(self.connections) + descriptors.missing, descriptors.connections
        if count > most:
            error = Crowded("connections", count, f"at most {most} (max_connections)")
            refuse(self, error, waits=count <= most + LINGERING_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends, and lets go of the transport; see `LostTransport`."""
        self.lost = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # the timers would keep this object alive
        for timer in (self._head_timer, self._probe_timer):
            if timer is not None:
                timer.cancel()
        if self._lingering is not None:
            self._lingering.stop()
        self.transport = self.flow._transport = LOST

    def data_received(self, data: bytes) -> None:
        """Takes bytes; after the last answer they are thrown away."""
        if self._lingering is not None:
            self._lingering.throw_away(len(data))
        if self.refusing:
            return
        if self.timeout_keep_alive_task is not None:
            self.head_due = self.loop.time() + HEAD_SECONDS
        self._uncounted_bytes += len(data)
        self._rest = data
        while self._rest and not self.refusing:
            self._read, self._rest = self._rest, b""
            super().data_received(self._read)
        if self._uncounted_bytes and not self.refusing:
            self._check_unfinished()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps a connection whose client has closed its sending side and waits for an answer.

        A client that has left looks the same at first, so interim answers are sent now and then:
        one that has left resets the connection. Under TLS no connection is kept.
        """
        waits = self.cycle is not None and not self.cycle.response_complete
        self._half_closed = waits and not self.cycle.more_body and self.scheme == "http"
        if self._half_closed and self._probe_timer is None:
            self._probe_timer = self.loop.call_later(_PROBE_SECONDS, self._probe)
        return self._half_closed

    # What the server calls.

    def shutdown(self) -> None:
        """Ends the connection, now or after the answer that is being sent."""
        if self._lingering is not None:
            return
        if self._exchange is not None:
            self._exchange.forbid_keep_alive()
        super().shutdown()

    # What the parser calls; errors raised here lead to `send_400_response`.

    def on_message_begin(self) -> None:
        """Begins a head."""
        self.in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Starts a request whose head is within its limits, and gives it its exchange."""
        version, headers = self.parser.get_http_version(), self.headers
        # The parser leaves white space after values.
        headers[:] = [(name, value.rstrip(b" \t")) for name, value in headers]
        try:
            length = check_head(version, self.url, headers, read_bytes=self._uncounted_bytes)
        except FieldProblem as error:
            self._refusal = error
            raise
        if not self.url.startswith(b"/"):
            take_authority(self.url, headers)
        self._uncounted_bytes, self.head_due, self.in_head = 0, None, False
        self._field_count = len(headers)
        self._begins_body = length != 0 and self.parser.should_upgrade()
        if version == "1.0":
            self.expect_100_continue = False  # RFC 9110, section 10.1.1
        elif (b"expect", b"100-continue") in headers:
            self.expect_100_continue = True
        super().on_headers_complete()
        self._exchange = self.cycle.transport = Exchange(self, self.cycle, length)
        cast("dict[str, Any]", self.scope)[EXCHANGE] = self._exchange

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body that was not pulled."""
        self._uncounted_bytes = 0
        if self._exchange is not None:
            self._exchange.left_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request, unless the parser has stopped before its body."""
        if self._begins_body:
            return
        self._uncounted_bytes = 0
        del self.headers[self._field_count :]  # fields after a chunked body are no headers
        super().on_message_complete()
        if self._exchange is not None:
            self._exchange.end_body()

    def send_400_response(self, msg: str) -> None:
        """Refuses a request that cannot be parsed or is too large."""
        del msg  # uvicorn's is the same for all
        limit = "a request by RFC 9112 (HTTP/1.1)"
        refuse(self, self._refusal or RequestMalformed("request", "malformed", limit))

    def _unsupported_upgrade_warning(self) -> None:
        """Goes on with HTTP/1.1, where the parser has stopped as another protocol was offered.

        httptools stops after such a head; a server may ignore the offer (RFC 9110, section 7.8). A
        body is read by another parser, which gets a head of nothing but the body's length.
        """
        stopped = sys.exception()
        assert isinstance(stopped, httptools.HttpParserUpgrade)
        self._rest = self._read[stopped.args[0] :]
        if self._begins_body:
            self._begins_body = False
            length = self._exchange.length_bytes if self._exchange is not None else None
            field = _CHUNKED if length is None else b"content-length: %d" % length
            self._make_parser(_AfterHead(self))
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % field)

    # What the cycle and the exchange call.

    def on_response_complete(self) -> None:
        """Ends an answer: the next request follows, or a wait for one, or the end."""
        if self._lingering is not None:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self._half_closed and self.cycle.response_complete:  # it was the last request
            self.transport.close()

    def take_back(self) -> None:
        """Goes on after a pulled body, whose end the parser has not seen."""
        self._make_parser(self)
        self.transport.pause_reading()
        self.transport.set_protocol(self)
        self.transport.resume_reading()

    def linger(self, left_bytes: int | None) -> None:
        """Closes the connection once the client should have seen the answer.

        Args:
            left_bytes: Bytes of the request's body that are still to come; None if not known.
        """
        self.refusing = True
        self._unset_keepalive_if_required()
        self._lingering = Lingering(self.transport, left_bytes)
        self.transport.set_protocol(self)
        self.transport.resume_reading()

    def _make_parser(self, told: object) -> None:
        self.parser = httptools.HttpRequestParser(told)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    # Limits of a head.

    def _check_unfinished(self) -> None:
        """Refuses an unfinished head, or fields after a chunked body, once they are too large."""
        try:
            is_begun = self.in_head and self.headers is not None
            check_size(self._uncounted_bytes, len(self.headers) if is_begun else 0)
        except HeadTooLarge as error:
            refuse(self, error)

    def _check_late(self) -> None:
        """Refuses a head that takes too long; closes a connection that has sent nothing."""
        now, due = self.loop.time(), self.head_due
        if due is None or due > now:
            next_look = now + HEAD_SECONDS if due is None else due
            self._head_timer = self.loop.call_at(next_look, self._check_late)
        elif self._uncounted_bytes:
            value = f"{self._uncounted_bytes} bytes after {HEAD_SECONDS:g} s"
            limit = f"complete within {HEAD_SECONDS:g} s of its first byte"
            refuse(self, UploadStalled("request line and headers", value, limit))
        else:
            self.transport.abort()  # under TLS, close() would wait for the client to close, too

    # A client that has closed its sending side.

    def _probe(self) -> None:
        """Sends an interim answer, which clients skip; a client that has left resets."""
        cycle = self.cycle
        if cycle.response_started or cycle.scope["http_version"] != "1.1":
            return  # the answer itself is a test; HTTP/1.0 has no interim answers
        if self.transport.is_closing():
            return
        if not self.pipeline:  # else the answer of an earlier request may be under way
            self.transport.write(CONTINUE)
        self._probe_timer = self.loop.call_later(_PROBE_SECONDS, self._probe)


class _AfterHead:
    """What a parser tells of a message, without its head."""

    def __init__(self, connection: WireProtocol) -> None:
        self._connection = connection
        self.in_head = True

    def __getattr__(self, name: str) -> Callable[..., None]:
        tell = getattr(self._connection, name)

        def tell_rest(*told: bytes) -> None:
            if not self.in_head:
                tell(*told)
            elif name == "on_headers_complete":
                self.in_head = False

        return tell_rest
