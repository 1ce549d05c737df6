"""uvicorn's HTTP protocol, with bodies that are received into memory of their route.

The application asks for a body's bytes once it has checked the request. Only then is the transport
lent to a `BodyPull`, until the body's last byte. Bodies that the application does not pull are
received by uvicorn.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, cast

import httptools

from wavetrim.service.api.wire.body_pull import BodyPull
from wavetrim.service.api.wire.body_source import RECEIVE_INTO
from wavetrim.service.api.wire.exchange import CONTINUE, Exchange
from wavetrim.service.api.wire.guard import GuardedProtocol
from wavetrim.service.api.wire.head import WireLimits, check_codings
from wavetrim.service.api.wire.sender import DRAINED
from wavetrim.service.errors import RequestMalformed

_CHUNKED: Final = b"transfer-encoding: chunked"

_PROBE_SECONDS: Final = 1.0
"""How often to test whether a client that has closed its sending side is still there; chosen."""


class WireProtocol(GuardedProtocol):
    """A connection, made and called by uvicorn as its own protocol."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exchange: Exchange | None = None
        self._half_closed = False
        self._begins_body = False
        self._probe_timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        super().connection_lost(exc)
        if self._probe_timer is not None:
            self._probe_timer.cancel()  # it, too, would keep the connection

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps a connection whose client has closed its sending side and waits for an answer.

        A client that has left looks the same at first. So interim answers are sent now and then: a
        client that is gone resets the connection. Under TLS no connection is kept.
        """
        waits = self.cycle is not None and not self.cycle.response_complete
        self._half_closed = waits and not self.cycle.more_body and self.scheme == "http"
        if self._half_closed and self._probe_timer is None:
            self._probe_timer = self.loop.call_later(_PROBE_SECONDS, self._probe)
        return self._half_closed

    # What the server calls.

    def shutdown(self) -> None:
        """Ends the connection, now or after the answer that is being sent."""
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
        self._begins_body = has_body and self.parser.should_upgrade()
        if self.parser.get_http_version() == "1.0":
            self.expect_100_continue = False  # RFC 9110, section 10.1.1
        super().on_headers_complete()
        exchange = Exchange(self, self.cycle, length)
        self._exchange = self.cycle.transport = exchange
        extensions: dict[str, Any] = {DRAINED: exchange.drained}
        if length:
            extensions[RECEIVE_INTO] = exchange.receive_into
        cast("dict[str, Any]", self.scope)["extensions"] = extensions

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body that was not pulled."""
        if self._exchange is not None:
            self._exchange.count_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request, unless the parser has stopped before its body."""
        if self._begins_body:
            return
        super().on_message_complete()
        if self._exchange is not None:
            self._exchange.end_body()

    def _unsupported_upgrade_warning(self) -> None:
        """Goes on with HTTP/1.1, where the parser has stopped as another protocol was offered.

        httptools stops after such a head; a server may ignore the offer (RFC 9110, section 7.8). A
        body is read by another parser, which gets a head of nothing but the body's length.
        """
        stopped = sys.exception()
        assert isinstance(stopped, httptools.HttpParserUpgrade)
        self.rest = self.read[stopped.args[0] :]
        if self._begins_body:
            self._begins_body = False
            length, _ = _find_body(self.headers)
            field = _CHUNKED if length is None else b"content-length: %d" % length
            self._make_parser(_AfterHead(self))
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % field)

    # What the cycle and the exchange call.

    def on_response_complete(self) -> None:
        """Ends an answer: the next request follows, or a wait for one, or the end."""
        if self._lingering:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self._half_closed and self.cycle.response_complete:  # it was the last request
            self.transport.close()

    def lend(self, left_bytes: int, on_end: Callable[[], None]) -> BodyPull:
        """Lends the transport to a `BodyPull` until the body's last byte.

        Args:
            left_bytes: Bytes of the body that are still to come.
            on_end: Called after the last byte.
        """
        pull = BodyPull(self, self.transport, left_bytes, on_end)
        self.transport.pause_reading()
        self.transport.set_protocol(pull)
        # Otherwise uvicorn could resume a transport that is lent.
        self.flow.read_paused = False
        return pull

    def take_back(self) -> None:
        """Goes on after a pulled body, whose end the parser has not seen."""
        self._make_parser(self)
        self.transport.pause_reading()
        self.transport.set_protocol(self)
        self.transport.resume_reading()

    def _make_parser(self, told: object) -> None:
        self.parser = httptools.HttpRequestParser(told)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

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


def make_protocol(limits: WireLimits) -> type[WireProtocol]:
    """The class for uvicorn's `http=`, whose connections have these limits."""
    return type("LimitedProtocol", (WireProtocol,), {"limits": limits})


def _find_body(headers: list[tuple[bytes, bytes]]) -> tuple[int | None, bool]:
    """A body's length, None if it is not known; and whether there is a body.

    Raises:
        RequestMalformed: Its transfer coding is not supported.
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


class _AfterHead:
    """What a parser tells of a message, without its head."""

    def __init__(self, connection: WireProtocol) -> None:
        self._connection = connection
        self._in_head = True

    def __getattr__(self, name: str) -> Callable[..., None]:
        tell = getattr(self._connection, name)

        def tell_rest(*told: bytes) -> None:
            if not self._in_head:
                tell(*told)
            elif name == "on_headers_complete":
                self._in_head = False

        return tell_rest
