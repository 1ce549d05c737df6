"""The content of bodies: inflated where they come in gzip or deflate, and its digest.

`deflate` means zlib's format, as in RFC 9110; gzip may have several members, one after the other
(RFC 1952, section 2.2). No more is inflated than a MiB beyond what is asked for. Of the digests in
fields of RFC 9530 only sha-256 is read.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from wavetrim.service.errors import BodyLengthWrong, ContentRefused, DigestMalformed
from wavetrim.service.threads import run_to_end

_MEMBER: Final = re.compile(
    r"[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):[ \t]*(?:,|$)", re.ASCII
)
"""Key and value of a member of a Content-Digest field."""

_ANY_WINDOW: Final = 47
"""The `wbits` with which zlib detects gzip or its own format."""

_GZIP_WINDOW: Final = 31

_GZIP_BEGIN: Final = 0x1F
"""The first byte of every member of gzip."""

_FED_BYTES: Final = 2**14
"""The most that zlib is given at once, and that is inflated without a thread; chosen: at the end of
each member zlib copies what it was given and has not used."""

_PIECE_BYTES: Final = 2**20
"""The most that is inflated at once; chosen: it takes 3 ms."""


class Inflater:
    """Inflates a body.

    Args:
        coding: "gzip" or "deflate".
        receive: Receives its next compressed bytes; none at its end.

    Attributes:
        inflated_bytes: How many bytes it has given.
    """

    def __init__(self, coding: str, receive: Callable[[], Awaitable[bytes]]) -> None:
        self._coding = coding
        self._receive = receive
        self._inflater = zlib.decompressobj(_ANY_WINDOW)
        self._waiting = memoryview(b"")
        self._received_bytes = 0
        self.inflated_bytes = 0

    async def receive(self) -> bytes:
        """The next bytes, inflated; empty at the end.

        Raises:
            BodyLengthWrong: The compressed data are cut off, or something else follows them.
            ContentRefused: They are not in the coding.
        """
        while not (chunk := await self._inflate_waiting()):
            content = await self._receive()
            if not content:
                break
            self._received_bytes += len(content)
            self._waiting = memoryview(content)
        if not chunk and not self._inflater.eof:
            limit = "longer: its compressed data are cut off"
            raise BodyLengthWrong("body", f"{self._received_bytes} bytes", limit)
        return chunk

    async def _inflate_waiting(self) -> bytes:
        if len(self._waiting) > _FED_BYTES:
            return await run_to_end(self._inflate)
        return self._inflate()

    def _inflate(self) -> bytes:
        content = bytearray()
        try:
            while len(content) < _PIECE_BYTES and (self._waiting or not self._inflater.eof):
                if self._inflater.eof:
                    self._begin_member()
                fed = self._waiting[:_FED_BYTES]
                chunk = self._inflater.decompress(fed, _PIECE_BYTES - len(content))
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

    def _begin_member(self) -> None:
        """Begin with what follows the end of compressed data: in gzip, another member."""
        if self._coding != "gzip" or self._waiting[0] != _GZIP_BEGIN:
            found = f"{self.inflated_bytes} bytes, inflated, and something else after them"
            limit = "compressed data alone: one stream, or several members of gzip"
            raise BodyLengthWrong("body", found, limit)
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)


def parse_digest(text: str) -> bytes | None:
    """Reads a Content-Digest field: a dictionary (RFC 9651) of byte sequences.

    Args:
        text: The field; several fields are joined with commas.

    Returns:
        The SHA-256, or None when the field has only other algorithms: these are ignored.

    Raises:
        DigestMalformed: The field breaks the grammar, or the digest has another length.
    """
    if _MEMBER.sub("", text):
        limit = "members such as sha-256=:<base64>:"
        raise DigestMalformed("Content-Digest", text[:200], limit)
    value = dict(_MEMBER.findall(text)).get("sha-256")
    if value is None:
        return None
    try:
        digest = base64.b64decode(value, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != 32:
        raise DigestMalformed("Content-Digest", value[:200], "the base64 of 32 bytes")
    return digest


def format_digest(digest: bytes) -> str:
    """A Content-Digest field of a SHA-256."""
    return f"sha-256=:{base64.b64encode(digest).decode()}:"
