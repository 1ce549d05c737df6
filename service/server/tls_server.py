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

from wavetrim.service.api.wire.connection import LINGERING_CONNECTIONS
from wavetrim.service.api.wire.refusal import CLOSED, HEAD_SECONDS, WireLimits

logger = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.1
"""Time between two tries to accept when the process has no descriptor left; chosen."""


async def accept_tls(
    listener: socket.socket,
    tls: ssl.SSLContext,
    make_protocol: Callable[[], asyncio.Protocol],
    limits: WireLimits,
) -> None:
    """Gives connections an HTTP protocol after their TLS handshake, until it is cancelled.

    Then handshakes are broken off, and the listener is closed.

    Args:
        listener: A listening socket.
        tls: How connections are encrypted.
        make_protocol: Makes a connection's protocol.
        limits: How many connections there may be: a few too many, to send them a refusal.
    """
    loop, descriptors = asyncio.get_running_loop(), limits.descriptors
    most = descriptors.connections + LINGERING_CONNECTIONS
    shaking: set[asyncio.Task[None]] = set()
    listener.setblocking(False)
    try:
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                logger.warning("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if descriptors.count_connections() + descriptors.missing + len(shaking) >= most:
                connection.close()
                limits.note_refusal(CLOSED, "too many connections")
                continue
            task = asyncio.create_task(_shake_hands(connection, tls, make_protocol))
            shaking.add(task)
            task.add_done_callback(shaking.discard)
    finally:
        for task in shaking:
            task.cancel()
        listener.close()


async def _shake_hands(
    connection: socket.socket, tls: ssl.SSLContext, make_protocol: Callable[[], asyncio.Protocol]
) -> None:
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        await asyncio.get_running_loop().connect_accepted_socket(
            make_protocol,
            connection,
            ssl=tls,
            ssl_handshake_timeout=HEAD_SECONDS,
            ssl_shutdown_timeout=HEAD_SECONDS,
        )
    except (OSError, asyncio.CancelledError):
        # The client has left, is too slow, or speaks no TLS that we know.
        with contextlib.suppress(OSError):
            connection.close()
