"""The bytes of a request's body, as they come from its connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from wavetrim.service.api.wire.body_pull import (
    LEAST_BYTES_PER_SECOND,
    BodyCutOff,
    BodySilent,
)
from wavetrim.service.errors import UploadStalled

SMALL_BODY_BYTES: Final = 2**16
"""Bodies up to this length are received in one piece; longer ones can be pulled into a view.
Chosen."""

RECEIVE_INTO: Final = "wavetrim.receive_into"
"""Name of the ASGI extension `Exchange.receive_into`."""


class BodySource:
    """Receives a body from its beginning to its end.

    If the server offers it and the body is long, the bytes go straight from the socket into the
    caller's memory; else they are copied there as ASGI delivers them.

    Args:
        scope: The request's ASGI scope.
        receive: Its ASGI channel; nothing of the body has been received.
        length_bytes: The body's length; None if it is not known.
        idle_seconds: How long the sender may be silent, and the time over which it must keep
            `LEAST_BYTES_PER_SECOND`.

    Attributes:
        received_bytes: How many bytes have come.
    """

    def __init__(
        self, scope: Scope, receive: Receive, *, length_bytes: int | None, idle_seconds: float
    ) -> None:
        self.received_bytes = 0
        self._receive_message = receive
        self._length_bytes = length_bytes or 0
        self._receive_into: Callable[..., Awaitable[int]] | None = None
        if self._length_bytes > SMALL_BODY_BYTES:
            extensions: dict[str, Any] = scope.get("extensions") or {}
            self._receive_into = extensions.get(RECEIVE_INTO)
        self._idle_seconds = idle_seconds
        self._window_seconds = 0.0
        self._window_bytes = 0
        self._rest = b""
        self._ended = False

    @property
    def given_bytes(self) -> int:
        """How many bytes of content have come."""
        return self.received_bytes

    async def receive_some(self, most: int) -> bytes:
        """The next bytes, at most `most` if they are pulled; empty at the end.

        Raises:
            UploadStalled: The sender fell silent, or is too slow.
            ClientDisconnect: The sender left.
        """
        if self._rest:
            chunk, self._rest = self._rest, b""
            return chunk
        if self._receive_into is None:
            return await self._receive()
        buffer = bytearray(min(most, self._length_bytes - self.received_bytes))
        return bytes(buffer[: await self._pull(memoryview(buffer))]) if buffer else b""

    def put_back(self, chunk: bytes) -> None:
        """Gives back the end of the bytes that were received last; they come again first."""
        self._rest = chunk

    async def fill(self, view: memoryview) -> int:
        """Receives into a view; returns less than its length only at the body's end.

        However the call ends, nothing is written into the view afterwards.

        Raises:
            UploadStalled: The sender fell silent, or is too slow.
            ClientDisconnect: The sender left.
        """
        filled = self._place(self._rest, view)
        while filled < len(view):
            if self._receive_into is not None:
                count = await self._pull(view[filled:])
            elif chunk := await self._receive():
                count = self._place(chunk, view[filled:])
            else:
                count = 0
            if not count:
                break
            filled += count
        return filled

    def _place(self, chunk: bytes, view: memoryview) -> int:
        """Copies the bytes that fit into the view, and keeps the rest for the next one."""
        count = min(len(chunk), len(view))
        view[:count] = chunk[:count]
        self._rest = chunk[count:]
        return count

    async def _pull(self, view: memoryview) -> int:
        """Has the server fill a view; returns less than its length only at the body's end."""
        assert self._receive_into is not None
        try:
            count = await self._receive_into(view, idle_seconds=self._idle_seconds)
        except BodyCutOff as error:
            self.received_bytes += error.received_bytes
            raise ClientDisconnect from error
        except BodySilent as error:
            self.received_bytes += error.received_bytes
            raise self._describe_silence(slow=error.slow) from error
        self.received_bytes += count
        return count

    async def _receive(self) -> bytes:
        """The next bytes as ASGI delivers them; empty at the end."""
        clock = asyncio.get_running_loop().time
        while not self._ended:
            asked_at = clock()
            try:
                async with asyncio.timeout(self._idle_seconds):
                    message = await self._receive_message()
            except TimeoutError as error:
                raise self._describe_silence() from error
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            chunk = bytes(message.get("body", b""))
            self.received_bytes += len(chunk)
            self._check_pace(clock() - asked_at, len(chunk))
            if chunk:
                return chunk
        return b""

    def _check_pace(self, seconds: float, count: int) -> None:
        """Counts the time that was waited, and the bytes that came in it."""
        self._window_seconds += seconds
        self._window_bytes += count
        if self._window_seconds < self._idle_seconds:
            return
        if self._window_bytes < self._window_seconds * LEAST_BYTES_PER_SECOND and not self._ended:
            raise self._describe_silence(slow=True)
        self._window_seconds, self._window_bytes = 0.0, 0

    def _describe_silence(self, *, slow: bool = False) -> UploadStalled:
        over = f"{self._idle_seconds:g} s"
        if slow:
            value = f"too slow after {self.received_bytes} bytes"
            limit = f"sent at {LEAST_BYTES_PER_SECOND} bytes a second at least, over {over}"
        else:
            value = f"silent after {self.received_bytes} bytes"
            limit = f"sent without pauses of {over}"
        return UploadStalled("body", value, limit)
