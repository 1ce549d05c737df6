"""Receives a body's bytes from the socket into memory of the route."""

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from wavetrim.service.api.wire.lingering import LOST
from wavetrim.service.errors import UploadStalled

if TYPE_CHECKING:
    from wavetrim.service.api.wire.connection import WireProtocol
    from wavetrim.service.api.wire.exchange import Exchange

PIECE_BYTES: Final = 2**20
"""The most bytes of one read; chosen, so that other connections have their turn."""

IDLE_SECONDS: Final = 60.0
"""How long the sender of a body may be silent or too slow, and the reader of an answer; chosen."""

LEAST_BYTES_PER_SECOND: Final = 2**10
"""Least rate at which a body must come, over `IDLE_SECONDS`; chosen."""

_NO_VIEW: Final = memoryview(b"")


class BodyPull(asyncio.BufferedProtocol):
    """The transport's protocol from the first pull until the body's last byte.

    The transport reads only while `fill` runs: otherwise no byte is taken from the socket or
    written into a view.

    Args:
        connection: The connection, which is told of everything but bytes.
        exchange: The request, of whose body at least a byte is still to come. It counts the bytes,
            and takes the transport back after the last one.
    """

    def __init__(self, connection: "WireProtocol", exchange: "Exchange") -> None:
        self._connection = connection
        self._transport = connection.transport
        self._exchange = exchange
        self._view = _NO_VIEW
        self._filled = 0
        self._heard_at = 0.0
        self._window_at = 0.0
        self._window_bytes = 0
        self._reading = False
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._transport.pause_reading()
        self._transport.set_protocol(self)
        # Otherwise uvicorn could resume a transport that is not its own.
        connection.flow.read_paused = False

    async def fill(self, view: memoryview) -> int:
        """Receives until the view is full or the body ends.

        However the call ends, nothing is written into the view afterwards.

        Args:
            view: Where the bytes go: one dimension of bytes, at least 1.

        Returns:
            How many bytes have arrived.

        Raises:
            ClientDisconnect: The connection was lost.
            UploadStalled: The sender was silent for too long, or too slow.
        """
        assert self._done is None, "one call at a time"
        if self._transport is LOST:
            raise ClientDisconnect
        loop = asyncio.get_running_loop()
        self._view, self._filled = view[: self._exchange.left_bytes], 0
        self._done = loop.create_future()
        self._heard_at = self._window_at = loop.time()
        self._window_bytes = 0
        self._timer = loop.call_later(IDLE_SECONDS, self._check_pace)
        self._exchange.acknowledge()
        self._read(True)
        try:
            await self._done
            return self._filled
        finally:
            self._timer.cancel()
            self._view, self._done = _NO_VIEW, None
            if self._reading:
                self._read(False)

    def give_up(self) -> None:
        """Ends a running `fill`, as another protocol takes the transport."""
        self._reading = False
        self._finish(ClientDisconnect())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        del sizehint
        return self._view[self._filled : self._filled + PIECE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Counts what has arrived."""
        self._filled += nbytes
        self._window_bytes += nbytes
        self._exchange.left_bytes -= nbytes
        self._heard_at = asyncio.get_running_loop().time()
        if self._filled < len(self._view):
            self._exchange.acknowledge()
            return
        if self._exchange.left_bytes:
            self._read(False)
        else:
            self._reading = False
            self._exchange.end_pull()
            self._transport = LOST  # under TLS the transport remembers this object
        self._finish(None)

    def eof_received(self) -> None:
        """Lets the transport close: a body that ends early is useless."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the connection's protocol, and the call that waits for bytes."""
        self._reading, self._transport = False, LOST
        self._connection.connection_lost(exc)
        self._finish(ClientDisconnect())

    def pause_writing(self) -> None:
        """The transport's write buffer is full."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The transport's write buffer is empty."""
        self._connection.resume_writing()

    def _read(self, reading: bool) -> None:
        """Have the transport read, or pause."""
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _check_pace(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        slow = False
        if self._window_at + IDLE_SECONDS <= now:
            slow = self._window_bytes < IDLE_SECONDS * LEAST_BYTES_PER_SECOND
            self._window_at, self._window_bytes = now, 0
        silent = self._heard_at + IDLE_SECONDS <= now
        if silent or slow:
            self._finish(describe_stall(self._exchange.received_bytes, slow=not silent))
        else:
            due = min(self._heard_at, self._window_at) + IDLE_SECONDS
            self._timer = loop.call_at(due, self._check_pace)

    def _finish(self, error: Exception | None) -> None:
        self._view = _NO_VIEW
        if self._done is None or self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


def describe_stall(received_bytes: int, *, slow: bool) -> UploadStalled:
    """The refusal of a body whose sender is silent, or too slow, for `IDLE_SECONDS`."""
    if slow:
        value = f"too slow after {received_bytes} bytes"
        limit = f"sent at {LEAST_BYTES_PER_SECOND} bytes a second at least, over {IDLE_SECONDS:g} s"
    else:
        value = f"silent after {received_bytes} bytes"
        limit = f"sent without pauses of {IDLE_SECONDS:g} s"
    return UploadStalled("body", value, limit)
