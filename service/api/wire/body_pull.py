"""Receives a body's bytes from the socket into memory of the route."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

from wavetrim.service.api.wire.lost_transport import LOST

PIECE_BYTES: Final = 2**20
"""The most bytes of one read; chosen, so that other connections have their turn."""

PACKET_BYTES: Final = 2**16
"""More than a packet holds, even on the loopback device."""

IDLE_SECONDS: Final = 60.0
"""How long the sender of a body may be silent or too slow, and the reader of an answer; chosen."""

LEAST_BYTES_PER_SECOND: Final = 2**10
"""Least rate at which a body must come; chosen."""

_NO_VIEW: Final = memoryview(b"")


class BodyCutOff(ConnectionResetError):
    """The connection was lost before the body's end.

    Attributes:
        received_bytes: Bytes that the failed call had received.
    """

    def __init__(self, received_bytes: int) -> None:
        super().__init__(f"the connection was lost after {received_bytes} bytes of the body")
        self.received_bytes = received_bytes


class BodySilent(TimeoutError):
    """The sender of a body was silent for too long, or too slow.

    Attributes:
        received_bytes: Bytes that the failed call had received.
        slow: Whether bytes have come, but too few.
    """

    def __init__(self, received_bytes: int, *, slow: bool) -> None:
        how = "is too slow" if slow else "fell silent"
        super().__init__(f"the sender {how} after {received_bytes} bytes")
        self.received_bytes = received_bytes
        self.slow = slow


class BodyPull(asyncio.BufferedProtocol):
    """The transport's protocol from the first pull until the body's last byte.

    The transport reads only while `fill` runs: otherwise no byte is taken from the socket or
    written into a view.

    Args:
        http: The connection's protocol, which is told of everything but bytes.
        transport: The connection's transport, paused.
        left_bytes: Bytes of the body that are still to come, at least 1.
        on_end: Called after the body's last byte; takes the transport back.

    Attributes:
        left_bytes: Bytes of the body that are still to come.
    """

    def __init__(
        self,
        http: asyncio.Protocol,
        transport: asyncio.Transport,
        left_bytes: int,
        on_end: Callable[[], None],
    ) -> None:
        self._http = http
        self._transport = transport
        self.left_bytes = left_bytes
        self._on_end = on_end
        self._view = _NO_VIEW
        self._filled = 0
        self._heard_at = 0.0
        self._window_at = 0.0
        self._window_bytes = 0
        self._reading = False
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._socket = _find_tcp(transport)

    async def fill(self, view: memoryview, idle_seconds: float | None) -> int:
        """Receives until the view is full or the body ends.

        However the call ends, nothing is written into the view afterwards.

        Args:
            view: Where the bytes go: one dimension of bytes, at least 1.
            idle_seconds: How long the sender may be silent, and the time over which it must keep
                `LEAST_BYTES_PER_SECOND`; None for no limit.

        Returns:
            How many bytes have arrived.

        Raises:
            BodyCutOff: The connection was lost.
            BodySilent: The sender was silent for too long, or too slow.
        """
        assert self._done is None, "one call at a time"
        if self._transport is LOST:
            raise BodyCutOff(0)
        loop = asyncio.get_running_loop()
        self._view, self._filled = view[: self.left_bytes], 0
        self._done = loop.create_future()
        self._heard_at = self._window_at = loop.time()
        self._window_bytes = 0
        if idle_seconds is not None:
            self._timer = loop.call_later(idle_seconds, self._check_pace, idle_seconds)
        self._acknowledge()
        self._read(True)
        try:
            await self._done
            return self._filled
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._view, self._done = _NO_VIEW, None
            if self._reading:
                self._read(False)

    def give_up(self) -> None:
        """Ends a running `fill`, as another protocol takes the transport."""
        self._reading = False
        self._finish(BodyCutOff(self._filled))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        del sizehint
        return self._view[self._filled : self._filled + PIECE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Counts what has arrived."""
        self._filled += nbytes
        self._window_bytes += nbytes
        self.left_bytes -= nbytes
        self._heard_at = asyncio.get_running_loop().time()
        if self._filled < len(self._view):
            self._acknowledge()
            return
        if self.left_bytes:
            self._read(False)
        else:
            self._reading = False
            self._on_end()
            self._transport = LOST  # under TLS the transport remembers this object
        self._finish(None)

    def eof_received(self) -> None:
        """Lets the transport close: a body that ends early is useless."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the connection's protocol, and the call that waits for bytes."""
        self._reading, self._transport = False, LOST
        self._http.connection_lost(exc)
        self._finish(BodyCutOff(self._filled))

    def pause_writing(self) -> None:
        """The transport's write buffer is full."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """The transport's write buffer is empty."""
        self._http.resume_writing()

    def _read(self, reading: bool) -> None:
        """Have the transport read, or pause."""
        self._reading = reading
        # A TLS transport of asyncio's that was closed twice has lost its connection's state.
        with contextlib.suppress(AttributeError):
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _acknowledge(self) -> None:
        """Have received bytes acknowledged at once when only the last packet is missing.

        A client without TCP_NODELAY holds back that packet, as it is short, until all earlier ones
        are acknowledged. The system would delay the acknowledgement by 40 ms, to send it with data.
        """
        if self._socket is not None and self.left_bytes < PACKET_BYTES:
            # A connection may be lost, its descriptor closed, before this protocol is told.
            with contextlib.suppress(OSError, ValueError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _check_pace(self, idle_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        slow = False
        if self._window_at + idle_seconds <= now:
            slow = self._window_bytes < idle_seconds * LEAST_BYTES_PER_SECOND
            self._window_at, self._window_bytes = now, 0
        silent = self._heard_at + idle_seconds <= now
        if silent or slow:
            self._finish(BodySilent(self._filled, slow=not silent))
        else:
            due = min(self._heard_at, self._window_at) + idle_seconds
            self._timer = loop.call_at(due, self._check_pace, idle_seconds)

    def _finish(self, error: Exception | None) -> None:
        self._view = _NO_VIEW
        if self._done is None or self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


def _find_tcp(transport: asyncio.BaseTransport) -> Any:
    """The transport's TCP socket; None for other sockets, and on systems without TCP_QUICKACK."""
    found = transport.get_extra_info("socket")
    has_option = hasattr(socket, "TCP_QUICKACK")
    return found if has_option and found and found.family != socket.AF_UNIX else None
