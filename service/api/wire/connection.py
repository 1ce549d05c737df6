"""uvicorn's HTTP protocol, with bodies that are received where their route wants them.

The application asks for a body's bytes when it has looked at the request. Only then the transport
is lent to a `BodyPull`, and it comes back behind the body's last byte: whatever the application
does not pull goes uvicorn's ordinary way.
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
from wavetrim.service.api.wire.lingering import Lingering
from wavetrim.service.api.wire.lost_transport import LOST
from wavetrim.service.api.wire.sender import DRAINED
from wavetrim.service.errors import ContentRefused


class WireProtocol(HttpToolsProtocol):
    """A connection. uvicorn makes it, and calls it as its own protocol.

    Attributes:
        lost: True when the connection is gone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lost = False
        self._exchange: Exchange | None = None
        self._lingering = False
        self._refusing = False

    # What the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts; from now on a send waits until the one before it has left the process."""
        super().connection_made(transport)
        # Zero as the upper limit would never be met under TLS.
        transport.set_write_buffer_limits(high=1, low=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends, and lets go of the transport, which whoever knows this connection would keep."""
        self.lost = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # its timer, too, would keep the connection
        self.transport = self.flow._transport = LOST

    def data_received(self, data: bytes) -> None:
        """Takes bytes, but not behind a head that is refused with its body."""
        if not self._refusing:
            super().data_received(data)

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
