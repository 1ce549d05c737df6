"""uvicorn's HTTP protocol, with limits on what a connection may send.

A head is limited in length, fields and time. Bytes since the last end of a head or of a body's part
are counted at each read, not at each field, which would cost every request. For the same reason a
connection has one timer that looks for a late head, and a request has none.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wavetrim.service.api.problems import describe_error
from wavetrim.service.api.wire.head import (
    LINGERING_CONNECTIONS,
    WireLimits,
    check_head,
    check_size,
    take_authority,
)
from wavetrim.service.api.wire.lingering import Lingering
from wavetrim.service.api.wire.lost_transport import LOST
from wavetrim.service.api.wire.refusal import CLOSED, format_refusal
from wavetrim.service.errors import (
    Crowded,
    FieldProblem,
    HeadTooLarge,
    RequestMalformed,
    UploadStalled,
)


class GuardedProtocol(HttpToolsProtocol):
    """A connection that is refused and closed when it exceeds its limits.

    Attributes:
        limits: The limits of the server's connections.
        lost: True when the connection is gone.
        read: The bytes that are being parsed.
        rest: Those that the parser has left.
    """

    limits = WireLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lost = False
        self.read = self.rest = b""
        self._lingering = False
        self._refusing = False
        self._refusal: FieldProblem | None = None
        self._uncounted_bytes = 0  # since the last end of a head or of a body's part
        self._in_head = True
        self._field_count = 0
        self._head_due: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts; each send then waits until the one before it has left the process."""
        super().connection_made(transport)
        # An upper limit of 0 would never be met under TLS.
        transport.set_write_buffer_limits(high=1, low=0)
        self._await_head()
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._check_late)
        most = self.limits.connections
        count = len(self.connections) + self.limits.count_missing()
        if most is not None and count > most:
            error = Crowded("connections", count, f"at most {most} (max_connections)")
            self._refuse(error, waits=count <= most + LINGERING_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends, and lets go of the transport; see `lost_transport`."""
        self.lost = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # the timer would keep this object alive
        if self._head_timer is not None:
            self._head_timer.cancel()
        self.transport = self.flow._transport = LOST

    def data_received(self, data: bytes) -> None:
        """Takes bytes, unless a head was refused."""
        if self._refusing:
            return
        if self.timeout_keep_alive_task is not None:
            self._await_head()
        self._uncounted_bytes += len(data)
        self.rest = data
        while self.rest and not self._refusing:
            self.read, self.rest = self.rest, b""
            super().data_received(self.read)
        if self._uncounted_bytes and not self._refusing:
            self._check_unfinished()

    # What the parser calls; errors raised here lead to `send_400_response`.

    def on_message_begin(self) -> None:
        """Begins a head."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a field, without white space after its value, which the parser leaves."""
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Starts a request whose head is within its limits."""
        try:
            check_head(
                self.parser.get_http_version(),
                self.url,
                self.headers,
                read_bytes=self._uncounted_bytes,
            )
        except FieldProblem as error:
            self._refusal = error
            raise
        if not self.url.startswith(b"/"):
            take_authority(self.url, self.headers)
        self._uncounted_bytes, self._head_due, self._in_head = 0, None, False
        self._field_count = len(self.headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body."""
        self._uncounted_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request."""
        self._uncounted_bytes = 0
        del self.headers[self._field_count :]  # fields after a chunked body are no headers
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuses a request that cannot be parsed or is too large."""
        del msg  # uvicorn's is the same for all
        limit = "a request by RFC 9112 (HTTP/1.1)"
        self._refuse(self._refusal or RequestMalformed("request", "malformed", limit))

    # The end.

    @property
    def refusing(self) -> bool:
        """Whether further bytes are thrown away."""
        return self._refusing

    def linger(self, left_bytes: int | None) -> None:
        """Closes the connection once the client should have seen the answer.

        Args:
            left_bytes: Bytes of the request's body that are still to come; None if not known.
        """
        self._lingering = True
        self._unset_keepalive_if_required()
        self.transport.pause_reading()
        Lingering(self, self.transport, left_bytes).start()

    # Limits of a head.

    def _await_head(self) -> None:
        self._head_due = self.loop.time() + self.limits.head_seconds

    def _check_unfinished(self) -> None:
        """Refuses an unfinished head, or fields after a chunked body, once they are too large."""
        try:
            is_begun = self._in_head and self.headers is not None
            check_size(self._uncounted_bytes, len(self.headers) if is_begun else 0)
        except HeadTooLarge as error:
            self._refuse(error)

    def _check_late(self) -> None:
        """Refuses a head that takes too long; closes a connection that has sent nothing."""
        now = self.loop.time()
        due = self._head_due
        if due is None or due > now:
            next_look = now + self.limits.head_seconds if due is None else due
            self._head_timer = self.loop.call_at(next_look, self._check_late)
        elif self._uncounted_bytes:
            seconds = f"{self.limits.head_seconds:g} s"
            value, limit = (
                f"{self._uncounted_bytes} bytes after {seconds}",
                f"complete within {seconds} of its first byte",
            )
            self._refuse(UploadStalled("request line and headers", value, limit))
        else:
            self.transport.abort()  # under TLS, close() would wait for the client to close, too

    def _refuse(self, error: Exception, *, waits: bool = True) -> None:
        """Answers in place of the application, and ends the connection.

        Earlier requests are answered first: a client must not mistake the refusal for the answer
        to one of them.

        Args:
            error: The refusal.
            waits: Whether a client that still sends has time to see the answer.
        """
        self._refusing, self._head_due = True, None
        if self.headers is not None and self._in_head:
            self.headers.clear()
        if self.transport.is_closing():
            return
        unanswered = self.cycle is not None and not self.cycle.response_complete
        if unanswered and not self._end_request(error):
            return
        status, answer = format_refusal(error)
        self.limits.note_refusal(str(status), error)
        self.transport.write(answer)
        if waits:
            self.linger(None)
        else:
            self.transport.close()

    def _end_request(self, error: Exception) -> bool:
        """Has the connection end with the last request; returns whether to refuse that at once."""
        cycle, status = self.cycle, CLOSED
        if not cycle.more_body:
            cycle.keep_alive = False
        elif self.pipeline:  # it waits for earlier requests
            refusal = describe_error(error)
            status, cycle.waiting_for_100_continue = str(refusal.status_code), False
            self.pipeline[0] = (cycle, cast("Any", refusal))
        elif cycle.response_started:
            self.transport.abort()
        else:
            # The reader of the body is told that the client has left, and asks for no more.
            cycle.disconnected, cycle.waiting_for_100_continue = True, False
            cycle.message_event.set()
            return True
        self.limits.note_refusal(status, error)
        return False
