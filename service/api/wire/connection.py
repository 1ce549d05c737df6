"""uvicorn's HTTP protocol, with bodies that are received where their route wants them.

The application asks for a body's bytes when it has looked at the request. Only then the transport
is lent to a `BodyPull`, and it comes back behind the body's last byte: whatever the application
does not pull goes uvicorn's ordinary way.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import httptools

from wavetrim.service.api.problems import describe_error
from wavetrim.service.api.wire.body_pull import BodyPull
from wavetrim.service.api.wire.body_source import RECEIVE_INTO
from wavetrim.service.api.wire.exchange import CONTINUE, Exchange
from wavetrim.service.api.wire.guard import GuardedProtocol
from wavetrim.service.api.wire.head import check_codings
from wavetrim.service.api.wire.sender import DRAINED
from wavetrim.service.errors import ContentRefused, RequestMalformed

_PROBE_SECONDS: Final = 1.0
"""How often it is tried whether a client that has said all is still there."""


class WireProtocol(GuardedProtocol):
    """A connection. uvicorn makes it, and calls it as its own protocol."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exchange: Exchange | None = None
        self._half_closed = False
        self._probe_timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        super().connection_lost(exc)
        if self._probe_timer is not None:
            self._probe_timer.cancel()  # it, too, would keep the connection

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps a connection whose client has said all and waits for its answer.

        A client that has left says the same. So the answer's own way is tried now and then: who is
        gone resets the connection. Under TLS no connection is kept.
        """
        waits = self.cycle is not None and not self.cycle.response_complete
        self._half_closed = waits and not self.cycle.more_body and self.scheme == "http"
        if self._half_closed and self._probe_timer is None:
            self._probe_timer = self.loop.call_later(_PROBE_SECONDS, self._probe)
        return self._half_closed

    # What the server calls.

    def shutdown(self) -> None:
        """Lets the connection end: now, or with the answer that is under way."""
        if self._lingering:
            return
        if self._exchange is not None:
            self._exchange.forbid_keep_alive()
        super().shutdown()

    # What the parser calls.

    def on_headers_complete(self) -> None:
        """Starts a request, and gives it its exchange."""
        try:
            length, has_body = _find_body(self.headers)
        except RequestMalformed as error:
            self._refusal = error
            raise
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
        if self._exchange is not None:
            self._exchange.count_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request, unless its body was never looked at."""
        if self._refusing:
            return
        super().on_message_complete()
        if self._exchange is not None:
            self._exchange.end_body()

    # What the cycle and the exchange call.

    def on_response_complete(self) -> None:
        """Ends an answer: the next request, or waiting for one, or the end."""
        if self._lingering:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self._half_closed and self.cycle.response_complete:  # that of the last request
            self.transport.close()

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

    # A client that has said all.

    def _probe(self) -> None:
        """Sends what every client skips before its answer; who has left does not take it."""
        cycle = self.cycle
        if cycle.response_started or cycle.scope["http_version"] != "1.1":
            return  # the answer itself shows it; HTTP/1.0 has no interim answers
        if self.transport.is_closing():
            return
        if not self.pipeline:  # else the answer of an earlier request may be under way
            self.transport.write(CONTINUE)
        self._probe_timer = self.loop.call_later(_PROBE_SECONDS, self._probe)


def _find_body(headers: list[tuple[bytes, bytes]]) -> tuple[int | None, bool]:
    """A body's length, where it is known, and whether there is a body.

    Raises:
        RequestMalformed: It comes in a form that is not taken.
    """
    length: int | None = None
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            codings.append(value)
    if codings:
        check_codings(codings)
        return None, True
    return length, bool(length)


async def _refuse_upgrade(scope: Any, receive: Any, send: Any) -> None:
    """Refuses a body behind a head that asks for another protocol: the parser stops before it."""
    value = dict(scope["headers"]).get(b"upgrade", b"").decode("latin-1")
    error = ContentRefused("Upgrade", value, "left out of a request with a body (HTTP/1.1 only)")
    await describe_error(error)(scope, receive, send)
