"""Reads a request's body of matrices once, from its beginning, into memory of the caller."""

import asyncio
import hashlib
from collections.abc import Awaitable, Collection, Sequence
from typing import Final

from anyio import CancelScope
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES, BodySource
from wavetrim.service.api.wire.digests import format_digest, parse_digest
from wavetrim.service.api.wire.inflated_source import InflatedSource, check_coding
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge, ContentRefused, DigestMismatch
from wavetrim.service.storage.matrices.npy import NpyHeader, parse_header

_HASH_BYTES: Final = 8 * 2**20
"""Bytes that are hashed at a time, in a thread, while the next bytes arrive; chosen."""

_HEADER_BYTES: Final = (128, 4096)
"""Bytes that are read to find a header, first and then: NumPy's have 128 or, seldom, more."""

MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npy")
"""The media types of a .npy file."""


class BodyReader:
    """Reads a body of matrices, and hashes it if a digest was sent.

    Args:
        scope: The request's ASGI scope.
        receive: Its ASGI channel; nothing of the body has been received.
        limit_bytes: The longest body.
        digests: The request's Content-Digest fields.
        idle_seconds: How long the sender may be silent.
        media_types: Accepted media types.
        head: The part of the body that says how long it is, for refusals.

    Attributes:
        length_bytes: The body's Content-Length; None without that header, or if it is compressed.

    Raises:
        BodyTooLarge: The body's length is known and too large.
        ContentRefused: The body's media type or encoding is not accepted.
        DigestMalformed: The Content-Digest field cannot be read.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        limit_bytes: int,
        digests: Sequence[str] | None = None,
        idle_seconds: float,
        media_types: Collection[str] = MEDIA_TYPES,
        head: str = ".npy header",
    ) -> None:
        headers = Headers(scope=scope)
        coding = _check_content(headers, media_types)
        self._head = head
        self.length_bytes = _read_length(headers, limit_bytes, head)
        self._expected = parse_digest(", ".join(digests)) if digests else None
        self._hash = hashlib.sha256() if self._expected is not None else None
        self._hashes = [] if self._hash is None else [self._hash]
        if coding == "identity":
            self._source = BodySource(
                scope, receive, length_bytes=self.length_bytes, idle_seconds=idle_seconds
            )
            return
        # The digest is that of what was sent (RFC 9530, section 2).
        tell, self._hashes, self.length_bytes = self._update_sent, [], None
        self._source = InflatedSource(
            scope, receive, coding=coding, idle_seconds=idle_seconds, tell=tell
        )

    @property
    def received_bytes(self) -> int:
        """Bytes of the body that have come."""
        return self._source.received_bytes

    @property
    def digest(self) -> bytes | None:
        """SHA-256 of all bytes that were read; None if no Content-Digest field was sent."""
        return self._hash.digest() if self._hash is not None else None

    def hash_rest(self, begin: bytes) -> "hashlib._Hash":
        """A SHA-256 of `begin` and of all bytes that are read from now on."""
        self._hashes.append(hashlib.sha256(begin))
        return self._hashes[-1]

    async def read_header(self, name: str = "matrix") -> tuple[NpyHeader, bytes]:
        """Reads the header of the next .npy file.

        Args:
            name: Name of this matrix, for the refusal if it is missing.

        Returns:
            What the header says, and its bytes.

        Raises:
            NpyError: It is not the header of a .npy file that the service accepts.
            BodyLengthWrong: The body ends before the header does.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        prefix = b""
        ask = _HEADER_BYTES[0]
        while (header := parse_header(prefix)) is None:
            chunk = await self._source.receive_some(ask)
            if not chunk:
                where = f"it ends inside the .npy header of the {name}" if prefix else f"no {name}"
                found = f"{self._source.given_bytes} bytes"
                raise BodyLengthWrong("body", found, f"longer: {where}")
            prefix += chunk
            ask = _HEADER_BYTES[1]
        raw = prefix[: header.offset_bytes]
        self._source.put_back(prefix[header.offset_bytes :])
        self._update(raw)
        return header, raw

    async def read_into(self, view: memoryview, *, behind_bytes: int = 0) -> None:
        """Reads the next bytes into the caller's memory, until it is full.

        However the call ends, the view is neither written nor read afterwards.

        Args:
            view: Where the bytes go: one dimension of bytes.
            behind_bytes: How many bytes the body must have after these, for refusals.

        Raises:
            BodyLengthWrong: The body ends too early.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        if not self._hashes:
            await self._fill(view, behind_bytes)
            return
        hashing: Awaitable[None] | None = None
        try:
            for begin in range(0, len(view), _HASH_BYTES):
                piece = view[begin : begin + _HASH_BYTES]
                await self._fill(piece, behind_bytes + len(view) - begin - len(piece))
                if hashing is not None:
                    await hashing
                hashing = self._begin_hashing(piece)
        finally:
            if hashing is not None:
                with CancelScope(shield=True):
                    await asyncio.wait({asyncio.ensure_future(hashing)})

    async def read_rest(self, most: int) -> bytes:
        """Reads the rest of the body, or its next `most` bytes if it is longer.

        Raises:
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        received = bytearray()
        while len(received) < most and (
            chunk := await self._source.receive_some(most - len(received))
        ):
            received += chunk
        self._source.put_back(bytes(received[most:]))
        content = bytes(received[:most])
        self._update(content)
        return content

    def expect_length(self, expected_bytes: int, reason: str) -> None:
        """Compares the body's length, if it is known, with what the headers say.

        Raises:
            BodyLengthWrong: They differ.
        """
        if self.length_bytes is not None and self.length_bytes != expected_bytes:
            limit = f"{expected_bytes} bytes, by its {reason}"
            raise BodyLengthWrong("body", f"{self.length_bytes} bytes", limit)

    async def finish(self, expected_bytes: int) -> None:
        """Makes sure that the body ends here, and that its digest is right.

        Raises:
            BodyLengthWrong: There is more.
            DigestMismatch: Its SHA-256 differs from Content-Digest.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        if await self._source.receive_some(1):
            value = f"more than {expected_bytes} bytes"
            limit = f"{expected_bytes} bytes, by its {self._head}"
            raise BodyLengthWrong("body", value, limit)
        if self._expected is None:
            return
        digest = self.digest
        if digest is not None and digest != self._expected:
            limit = f"{format_digest(digest)}, the digest of the {expected_bytes} bytes received"
            raise DigestMismatch("Content-Digest", format_digest(self._expected), limit)

    async def _fill(self, view: memoryview, behind_bytes: int) -> None:
        filled = await self._source.fill(view)
        if filled < len(view):
            given_bytes = self._source.given_bytes
            needed = given_bytes + len(view) - filled + behind_bytes
            limit = f"at least {needed} bytes, by its {self._head}"
            raise BodyLengthWrong("body", f"{given_bytes} bytes", limit)

    def _begin_hashing(self, piece: memoryview) -> Awaitable[None] | None:
        if len(piece) <= SMALL_BODY_BYTES:
            self._update(piece)
            return None
        return asyncio.get_running_loop().run_in_executor(None, self._update, piece)

    def _update_sent(self, piece: bytes) -> None:
        if self._hash is not None:
            self._hash.update(piece)

    def _update(self, piece: bytes | memoryview) -> None:
        for one in self._hashes:
            one.update(piece)


def _check_content(headers: Headers, media_types: Collection[str]) -> str:
    """Check media type and content coding; returns the latter."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in media_types:
        raise ContentRefused("Content-Type", media_type, " or ".join(filter(None, media_types)))
    coding = headers.get("content-encoding", "").strip().lower() or "identity"
    if coding != "identity":
        check_coding(coding)
    return coding


def _read_length(headers: Headers, limit_bytes: int, head: str) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    # The server has refused anything that is not a number.
    length = int(text)
    if length > limit_bytes:
        limit = f"at most {limit_bytes} bytes (max_matrix_bytes each, with a {head})"
        raise BodyTooLarge("Content-Length", length, limit)
    return length


def choose_media_type(accept: str | None) -> str:
    """The media type of an answer: octet-stream only if Accept names that and not x-npy."""
    if accept is not None and MEDIA_TYPES[0] in accept and MEDIA_TYPES[1] not in accept:
        return MEDIA_TYPES[0]
    return MEDIA_TYPES[1]
