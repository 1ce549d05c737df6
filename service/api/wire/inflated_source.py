"""Bodies in gzip or deflate, read as the bytes before compression.

`deflate` means zlib's format, as in RFC 9110; gzip may have several members, one after the other
(RFC 1952, section 2.2). No more is inflated than a MiB beyond what is asked for.
"""

import zlib
from collections.abc import Callable
from typing import Final

from starlette.types import Receive, Scope

from wavetrim.service.api.wire.body_source import BodySource
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge, ContentRefused
from wavetrim.service.threads import run_to_end

CODINGS: Final = ("identity", "gzip", "deflate")
"""Content codings of requests."""

_ANY_WINDOW: Final = 47
"""The `wbits` with which zlib detects gzip or its own format."""

_GZIP_WINDOW: Final = 31

_GZIP_BEGIN: Final = 0x1F
"""The first byte of every member of gzip."""

_FED_BYTES: Final = 2**14
"""The most that zlib is given at once; chosen: it copies what it leaves, at each member's end. As
much is worth no thread."""

_PIECE_BYTES: Final = 2**20
"""The most that is inflated at once; chosen: it takes 3 ms."""


class Inflater:
    """Inflates what it is fed.

    Args:
        coding: "gzip" or "deflate".

    Attributes:
        inflated_bytes: How many bytes it has given.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._inflater = zlib.decompressobj(_ANY_WINDOW)
        self._waiting = memoryview(b"")
        self.inflated_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes that it was fed and has not inflated."""
        return len(self._waiting)

    def feed(self, content: bytes) -> None:
        """Take the next compressed bytes, once all before are inflated."""
        self._waiting = memoryview(content)

    def inflate(self, most: int) -> bytes:
        """At most `most` bytes of what it was fed; empty once all of it is inflated.

        Raises:
            BodyLengthWrong: Something else follows the compressed data.
            ContentRefused: They are not in the coding.
        """
        content = bytearray()
        try:
            while len(content) < most and (self._waiting or not self._inflater.eof):
                if self._inflater.eof:
                    self._begin_member()
                fed = self._waiting[:_FED_BYTES]
                chunk = self._inflater.decompress(fed, most - len(content))
                left_bytes = len(self._inflater.unconsumed_tail or self._inflater.unused_data)
                self._waiting = self._waiting[len(fed) - left_bytes :]
                content += chunk
                self.inflated_bytes += len(chunk)
                if not chunk and not fed:
                    break  # nothing is left in zlib either
        except zlib.error as error:
            limit = f"what its body is in ({error})"
            raise ContentRefused("Content-Encoding", self._coding, limit) from error
        return bytes(content)

    def finish(self, received_bytes: int) -> None:
        """Make sure that the compressed data are complete.

        Raises:
            BodyLengthWrong: They are cut off.
        """
        if not self._inflater.eof:
            limit = "longer: its compressed data are cut off"
            raise BodyLengthWrong("body", f"{received_bytes} bytes", limit)

    def _begin_member(self) -> None:
        """Begin with what follows the end of compressed data: in gzip, another member."""
        if self._coding != "gzip" or self._waiting[0] != _GZIP_BEGIN:
            found = f"{self.inflated_bytes} bytes, inflated, and something else after them"
            limit = "compressed data alone: one stream, or several members of gzip"
            raise BodyLengthWrong("body", found, limit)
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)


class InflatedSource(BodySource):
    """Receives a compressed body from its beginning to its end.

    Args:
        scope: The request's ASGI scope.
        receive: Its ASGI channel; nothing of the body has been received.
        coding: "gzip" or "deflate".
        idle_seconds: How long the sender may be silent.
        tell: Called with all bytes as they come, compressed.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        coding: str,
        idle_seconds: float,
        tell: Callable[[bytes], None],
    ) -> None:
        super().__init__(scope, receive, length_bytes=None, idle_seconds=idle_seconds)
        self._inflater = Inflater(coding)
        self._tell = tell

    @property
    def given_bytes(self) -> int:
        """How many bytes have been inflated."""
        return self._inflater.inflated_bytes

    async def _receive(self) -> bytes:
        """The next bytes, inflated; empty at the end."""
        while True:
            if self._inflater.waiting_bytes > _FED_BYTES:
                chunk = await run_to_end(self._inflater.inflate, _PIECE_BYTES)
            else:
                chunk = self._inflater.inflate(_PIECE_BYTES)
            if chunk:
                return chunk
            content = await super()._receive()
            if not content:
                self._inflater.finish(self.received_bytes)
                return b""
            self._tell(content)
            self._inflater.feed(content)


def inflate_document(content: bytes, coding: str, most: int) -> bytes:
    """A short body without its coding.

    Raises:
        ContentRefused: The coding is not one of `CODINGS`, or not that of the body.
        BodyLengthWrong: The body is cut off, or something else follows the compressed data.
        BodyTooLarge: It is longer than `most` bytes.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return content
    check_coding(coding)
    inflater = Inflater(coding)
    inflater.feed(content)
    document = inflater.inflate(most + 1)
    if len(document) > most:
        raise BodyTooLarge("body", f"more than {most} bytes, inflated", f"at most {most} bytes")
    inflater.finish(len(content))
    return document


def check_coding(coding: str) -> None:
    """Make sure that a body's content coding is known.

    Raises:
        ContentRefused: It is not.
    """
    if coding not in CODINGS:
        raise ContentRefused("Content-Encoding", coding, " or ".join(CODINGS))
