"""Accepts TLS connections, and counts them before their handshake.

asyncio's own server has every connection shake hands before a protocol knows of it, so a silent
client would hold a descriptor that is not counted. So connections are accepted here, one by one.
Those without a place are closed at once, as no answer can be sent before the handshake.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from wavetrim.service.api.wire.refusal import HEAD_SECONDS

logger = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.1
"""Time between two tries to accept when the process has no descriptor left; chosen."""


class TlsServer:
    """A listener that gives its connections an HTTP protocol after their TLS handshake.

    It is closed like asyncio's servers. To be used from one event loop.

    Args:
        listener: A listening socket.
        tls: How connections are encrypted.
        make_protocol: Makes a connection's protocol.
        has_place: Whether one more connection may be accepted, given how many shake hands.
        on_refused: Called for each connection without a place.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        has_place: Callable[[int], bool],
        on_refused: Callable[[], None],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._make_protocol = make_protocol
        self._has_place = has_place
        self._on_refused = on_refused
        self._shaking: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(), name="tls-accept")

    def close(self) -> None:
        """Accept no more, and break off handshakes."""
        for task in (self._accepting, *self._shaking):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until accepting has stopped, and close the listener."""
        await asyncio.gather(self._accepting, *self._shaking, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                logger.warning("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if self._has_place(len(self._shaking)):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
                task = asyncio.create_task(self._shake_hands(connection))
                self._shaking.add(task)
                task.add_done_callback(self._shaking.discard)
            else:
                connection.close()
                self._on_refused()

    async def _shake_hands(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=HEAD_SECONDS,
                ssl_shutdown_timeout=HEAD_SECONDS,
            )
        except (OSError, asyncio.CancelledError):
            # The client has left, is too slow, or speaks no TLS that we know.
            with contextlib.suppress(OSError):
                connection.close()
