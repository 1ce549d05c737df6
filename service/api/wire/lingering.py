"""The end of a connection: what reads its last bytes, and what stands for its transport then."""

import asyncio
from contextlib import suppress
from typing import Any, Final

LINGER_BYTES: Final = 64 * 2**20
"""The most bytes that are thrown away; chosen."""

LINGER_SECONDS: Final = 5.0
"""How long this goes on after the answer's last byte, and how long a client may read nothing of the
answer; chosen."""

QUIET_SECONDS: Final = 0.05
"""How long nothing may come after the body until the connection ends; chosen. Requests may follow
it in a pipeline, and would reset the connection."""

_SCRATCH: Final = bytearray(2**16)
"""Where all connections read bytes that are thrown away."""


class LostTransport(asyncio.Transport):
    """Accepts every call and does nothing.

    A request and its connection refer to each other, so only the garbage collector frees them, and
    late. Under TLS each transport has some 300 KiB of buffers, which must not wait for that.
    """

    def is_closing(self) -> bool:
        """True: it is closed."""
        return True

    def get_write_buffer_size(self) -> int:
        """0: nothing will be sent."""
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The default: nothing is known of the connection."""
        del name
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drops the bytes."""

    def close(self) -> None:
        """Does nothing."""

    def abort(self) -> None:
        """Does nothing."""

    def pause_reading(self) -> None:
        """Does nothing."""

    def resume_reading(self) -> None:
        """Does nothing."""


LOST = LostTransport()
"""The one stand-in of all lost connections."""


class Lingering(asyncio.BufferedProtocol):
    """The transport's protocol after an answer to a request whose body had not ended.

    A socket that is closed with unread bytes resets the connection, and the reset can overtake the
    answer (RFC 9112, section 9.6). So further bytes are read and thrown away for a while.

    Args:
        http: The connection's protocol.
        transport: The connection's transport, paused.
        left_bytes: Bytes of the body that are still to come, after which it need not wait for
            long; None if not known.
    """

    def __init__(
        self, http: asyncio.Protocol, transport: asyncio.Transport, left_bytes: int | None
    ) -> None:
        self._http = http
        self._transport = transport
        self._body_bytes = LINGER_BYTES if left_bytes is None else left_bytes
        self._read_bytes = 0
        # At the last look: fewer now is progress.
        self._waiting_bytes = transport.get_write_buffer_size() + 1
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + LINGER_SECONDS
        self._timer = self._loop.call_at(self._until, self._end)

    def start(self) -> None:
        """Takes the transport; if possible, tells the client that nothing follows the answer."""
        self._transport.set_protocol(self)
        if self._transport.can_write_eof():
            with suppress(OSError):  # the client is gone already
                self._transport.write_eof()
        self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where the next bytes are thrown away."""
        del sizehint
        return _SCRATCH

    def buffer_updated(self, nbytes: int) -> None:
        """Counts bytes that were thrown away."""
        self._read_bytes += nbytes
        if self._read_bytes >= LINGER_BYTES:
            self._transport.pause_reading()
            self._end()
        elif self._read_bytes >= self._body_bytes and (now := self._loop.time()) < self._until:
            self._timer.cancel()
            self._timer = self._loop.call_at(min(now + QUIET_SECONDS, self._until), self._end)

    def eof_received(self) -> None:
        """Lets the transport close: the client has seen the answer, or does not want it."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the connection's protocol."""
        self._timer.cancel()
        self._transport = LOST
        self._http.connection_lost(exc)

    def pause_writing(self) -> None:
        """The transport's write buffer is full."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """The transport's write buffer is empty."""
        self._http.resume_writing()

    def _end(self) -> None:
        self._timer.cancel()
        waiting_bytes = self._transport.get_write_buffer_size()
        if 0 < waiting_bytes < self._waiting_bytes:
            # A long answer goes on while a slow client reads it.
            self._waiting_bytes = waiting_bytes
            self._timer = self._loop.call_later(LINGER_SECONDS, self._end)
        else:
            # Under TLS, close() would wait for the client to close, too.
            self._transport.abort()
