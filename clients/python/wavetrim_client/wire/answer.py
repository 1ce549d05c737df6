"""The answer to a request: h11 reads its head; its body goes directly into the caller's memory."""

from collections.abc import Mapping
from typing import Final

import h11

from .stream import Stream, StreamBroken

HEAD_BYTES: Final = 2**16
"""Size of the buffer for a head, which receives the start of the body, too. Small bodies are sent
together with their head, up to this size. Chosen."""


class Answer:
    """The answer to a request, whose body is still to be received.

    Attributes:
        status: HTTP status.
        headers: By their names in lower case.
        length: Bytes of the body; None if the service does not say.
    """

    def __init__(
        self, stream: Stream, protocol: h11.Connection, head: h11.Response, *, reusable: bool
    ) -> None:
        self._stream = stream
        self._protocol = protocol
        self.status = head.status_code
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers
        }
        self.length = self._find_length()
        self._left = self.length
        self._rest = memoryview(protocol.trailing_data[0] if self.length is not None else b"")
        persistent = self.headers.get("connection", "").lower() != "close"
        self._reusable = reusable and persistent and head.http_version == b"1.1"
        self._content: list[bytes] = []

    @classmethod
    async def receive(cls, stream: Stream, protocol: h11.Connection, *, reusable: bool) -> "Answer":
        """Receive the head of an answer; `reusable`: whether the request was sent completely."""
        while True:
            event = protocol.next_event()
            if isinstance(event, h11.Response):
                return cls(stream, protocol, event, reusable=reusable)
            if event is h11.NEED_DATA:
                await _feed(stream, protocol)

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can carry another request; only after the body's end."""
        return self._reusable and self._left == 0

    async def receive_into(self, view: memoryview) -> int:
        """Receive some of the body into memory; returns how many bytes, 0 at its end.

        Raises:
            StreamBroken: The connection broke, or the service is silent.
        """
        if self._left is None and not self._rest:
            await self._receive_chunk()
        if self._rest:
            count = min(len(view), len(self._rest))
            if self._left is not None:
                count = min(count, self._left)
            view[:count] = self._rest[:count]
            self._rest = self._rest[count:]
        elif self._left:
            count = await self._stream.receive_into(view[: self._left])
            if count == 0:
                raise StreamBroken(f"the answer ends {self._left} bytes too early")
        else:
            return 0
        if self._left is not None:
            self._left -= count
        return count

    async def read(self) -> bytes:
        """All of the body. After an interruption it may be called again, and goes on.

        Raises:
            StreamBroken: The connection broke, or the service is silent.
        """
        while True:
            piece = bytearray(HEAD_BYTES if self._left is None else min(self._left, 2**20))
            count = await self.receive_into(memoryview(piece)) if piece else 0
            if count == 0:
                return b"".join(self._content)
            self._content.append(bytes(piece[:count]))

    def _find_length(self) -> int | None:
        """The body's length; None if it is chunked, or ends with the connection."""
        if self.status in (204, 304):
            return 0
        if "transfer-encoding" in self.headers or "content-length" not in self.headers:
            return None
        return int(self.headers["content-length"])

    async def _receive_chunk(self) -> None:
        """Receive some of a body of unknown length; its end sets `_left` to 0."""
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Data):
                self._rest = memoryview(bytes(event.data))
                return
            if isinstance(event, h11.EndOfMessage):
                self._left = 0
                self._reusable = self._reusable and "transfer-encoding" in self.headers
                return
            await _feed(self._stream, self._protocol)


async def _feed(stream: Stream, protocol: h11.Connection) -> None:
    buffer = bytearray(HEAD_BYTES)
    count = await stream.receive_into(memoryview(buffer))
    if count == 0 and protocol.their_state is h11.SEND_RESPONSE:
        raise StreamBroken("the connection was closed without an answer")
    protocol.receive_data(bytes(buffer[:count]))
