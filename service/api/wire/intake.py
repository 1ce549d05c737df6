"""What a connection reads between bodies: heads, and bodies that nobody pulls.

A transport that reads for itself takes a quarter of a MiB at once, and all of a body's bytes among
them are copied several times on uvicorn's ordinary way. This one takes so little that most of a
large body is left for whoever pulls it.
"""

import asyncio
from typing import Final

READ_BYTES: Final = 2**16
"""One read: a small body fits, and its head."""

_buffer: Final = memoryview(bytearray(READ_BYTES))
"""For all connections: what was read is handed on before the next one reads."""


class Intake(asyncio.BufferedProtocol):
    """Stands between a transport and the connection's protocol, and reads for it.

    Args:
        http: The connection's protocol.
    """

    def __init__(self, http: asyncio.Protocol) -> None:
        self._http = http

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        del sizehint
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hands on what has arrived."""
        self._http.data_received(bytes(_buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        """Tells the connection's protocol."""
        return self._http.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the connection's protocol."""
        self._http.connection_lost(exc)

    def pause_writing(self) -> None:
        """The transport's write buffer is full."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """The transport's write buffer is empty."""
        self._http.resume_writing()
