"""Bodies in gzip or deflate: inflated no further than their head announces, compressed in pieces.

`deflate` means zlib's format, as in RFC 9110.
"""

import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Final

from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import BodyLengthWrong, ContentRefused
from wavetrim.service.threads import run_to_end

CODINGS: Final = ("identity", "gzip", "deflate")
"""Content codings of requests."""

_WINDOWS: Final = {"gzip": 31, "deflate": 15}
"""zlib's `wbits` for each coding of an answer."""

_ASKED: Final = re.compile(r"(gzip|deflate)(?:[ \t]*;[ \t]*q=(?!0(?:\.0*)?$)[01](?:\.[0-9]*)?)?")
"""An Accept-Encoding that names one coding, which `q=0` would rule out."""

_ANY_WINDOW: Final = 47
"""The `wbits` with which zlib detects gzip or its own format."""

_GZIP_BEGIN: Final = 0x1F
"""The first byte of every member of gzip."""

_FED_BYTES: Final = 2**14
"""The most that zlib is given at once; chosen: it copies what it leaves, at each member's end."""

_LEVEL: Final = 1
"""Compression level; chosen: matrices compress little at any level, and this is the fastest."""

_PIECE_BYTES: Final = 2**20
"""The most that is compressed or inflated at once, in a thread; chosen: it takes 5 to 30 ms."""

_THREAD_BYTES: Final = 2**16
"""Longest piece that is not worth a thread; chosen."""


class InflatedBody:
    """A compressed body, read as the bytes before compression.

    In gzip it may have several members, one after the other (RFC 1952, section 2.2).

    Args:
        reader: The body as it is sent.
    """

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader
        self._inflater = zlib.decompressobj(_ANY_WINDOW)
        self._waiting = memoryview(b"")
        self._filled_bytes = 0

    async def read_into(self, view: memoryview) -> None:
        """Inflate the next bytes into the caller's memory, until it is full.

        Raises:
            BodyLengthWrong: The body ends too early, or something else follows the compressed data.
            ContentRefused: It is not in one of the codings.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        filled = 0
        while filled < len(view):
            chunk = await self._inflate(min(_PIECE_BYTES, len(view) - filled))
            if not chunk:
                found = f"{self._filled_bytes} bytes, inflated"
                least = f"at least {self._filled_bytes - filled + len(view)}, by its head"
                raise BodyLengthWrong("body", found, least)
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)

    async def read_rest(self, most: int) -> bytes:
        """Inflate the rest, but at most `most` bytes.

        Raises:
            As read_into.
        """
        content = bytearray()
        while len(content) < most and (chunk := await self._inflate(most - len(content))):
            content += chunk
        return bytes(content)

    async def finish(self, expected_bytes: int) -> None:
        """Make sure that the body ends here.

        Raises:
            BodyLengthWrong: There is more, compressed or not.
            ContentRefused: It is not in one of the codings.
        """
        if await self._inflate(1):
            limit = f"{expected_bytes} bytes, inflated, by its head, and nothing after them"
            raise BodyLengthWrong("body", f"more than {expected_bytes} bytes", limit)

    async def _inflate(self, most: int) -> bytes:
        """The next bytes, at least one and at most `most`; empty at the body's end.

        Raises:
            BodyLengthWrong: The body is cut off, or something else follows the compressed data.
            ContentRefused: It is not in one of the codings.
        """
        while True:
            try:
                if max(most, len(self._waiting)) > _THREAD_BYTES:
                    chunk = await run_to_end(self._inflate_waiting, most)
                else:
                    chunk = self._inflate_waiting(most)
            except zlib.error as error:
                limit = f"what its body is in ({error})"
                raise ContentRefused("Content-Encoding", self._reader.coding, limit) from error
            if chunk:
                return chunk
            self._waiting = memoryview(await self._reader.read_some(_PIECE_BYTES))
            if not self._waiting:
                if self._inflater.eof:
                    return b""
                found = f"{self._reader.received_bytes} bytes"
                raise BodyLengthWrong("body", found, "longer: its compressed data are cut off")

    def _inflate_waiting(self, most: int) -> bytes:
        """At most `most` bytes of what has been received; empty once all of it is inflated."""
        content = bytearray()
        while len(content) < most and (self._waiting or not self._inflater.eof):
            if self._inflater.eof:
                self._begin_member()
            fed = self._waiting[:_FED_BYTES]
            chunk = self._inflater.decompress(fed, most - len(content))
            left_bytes = len(self._inflater.unconsumed_tail or self._inflater.unused_data)
            self._waiting = self._waiting[len(fed) - left_bytes :]
            content += chunk
            self._filled_bytes += len(chunk)
            if not chunk and not fed:
                break  # nothing is left in zlib either
        return bytes(content)

    def _begin_member(self) -> None:
        """Begins with what follows the end of compressed data: in gzip, another member."""
        if self._reader.coding != "gzip" or self._waiting[0] != _GZIP_BEGIN:
            found = f"{self._filled_bytes} bytes, inflated, and something else after them"
            limit = "compressed data alone: one stream, or several members of gzip"
            raise BodyLengthWrong("body", found, limit)
        self._inflater = zlib.decompressobj(_WINDOWS["gzip"])


def choose_coding(accepted: str) -> str | None:
    """The coding of an answer, by the request's Accept-Encoding; None for none.

    Only a caller that names exactly one coding gets it. Libraries name all codings that they know
    by default, and compressing a matrix takes longer than sending it.
    """
    asked = _ASKED.fullmatch(accepted.strip().lower())
    return None if asked is None else asked[1]


async def compress(coding: str, views: Sequence[memoryview]) -> AsyncGenerator[bytes]:
    """The bytes of some views, one after the other, compressed in pieces."""
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOWS[coding])
    for view in views:
        for begin in range(0, len(view), _PIECE_BYTES):
            piece = view[begin : begin + _PIECE_BYTES]
            if chunk := await run_to_end(partial(deflater.compress, piece)):
                yield chunk
    yield deflater.flush()
