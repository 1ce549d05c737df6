"""The end of a connection: its last bytes, and what stands for its transport then."""

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

    def _ignore(self, *_args: Any) -> None:
        """Does nothing."""

    write = close = abort = pause_reading = resume_reading = _ignore  # type: ignore[assignment]


LOST = LostTransport()
"""The one stand-in of all lost connections."""


class Lingering:
    """Ends a connection after an answer to a request whose body had not ended.

    A socket that is closed with unread bytes resets the connection, and the reset can overtake the
    answer (RFC 9112, section 9.6). So further bytes are read and thrown away for a while. If
    possible, the client is told that nothing follows the answer.

    Args:
        transport: The connection's transport.
        left_bytes: Bytes of the body that are still to come, after which it need not wait for
            long; None if not known.
    """

    def __init__(self, transport: asyncio.Transport, left_bytes: int | None) -> None:
        self._transport = transport
        self._body_bytes = LINGER_BYTES if left_bytes is None else left_bytes
        self._read_bytes = 0
        # At the last look: fewer now is progress.
        self._waiting_bytes = transport.get_write_buffer_size() + 1
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + LINGER_SECONDS
        self._timer = self._loop.call_at(self._until, self._end)
        if transport.can_write_eof():
            with suppress(OSError):  # the client is gone already
                transport.write_eof()

    def throw_away(self, count: int) -> None:
        """Counts bytes that have come."""
        self._read_bytes += count
        if self._read_bytes >= LINGER_BYTES:
            self._transport.pause_reading()
            self._end()
        elif self._read_bytes >= self._body_bytes and (now := self._loop.time()) < self._until:
            self._timer.cancel()
            self._timer = self._loop.call_at(min(now + QUIET_SECONDS, self._until), self._end)

    def stop(self) -> None:
        """The connection is lost."""
        self._timer.cancel()
        self._transport = LOST

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
