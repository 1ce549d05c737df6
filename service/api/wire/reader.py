"""A request's body of .npy files, read once from its front, straight to where its bytes belong."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from anyio import CancelScope
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from wavetrim.service.api.wire.body_pull import BodyCutOff, BodySilent
from wavetrim.service.api.wire.digests import format_digest, parse_digest
from wavetrim.service.errors import (
    BodyLengthWrong,
    BodyTooLarge,
    ContentRefused,
    DigestMismatch,
    UploadStalled,
)
from wavetrim.service.storage.npy import NpyHeader, parse_header

MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npy")
"""The media types of a .npy file."""

SMALL_BODY_BYTES: Final = 2**16
"""Bodies up to this length are taken in one piece; longer ones can be pulled into a view."""

RECEIVE_INTO: Final = "wavetrim.receive_into"
"""The ASGI extension that pulls: `Exchange.receive_into`."""

_HASH_BYTES: Final = 8 * 2**20
"""So much is hashed at a time, in a thread, while the next bytes arrive."""

_HEADER_BYTES: Final = (128, 4096)
"""So much is asked for to find a header: NumPy's have 128 bytes or, seldom, more."""


class BodyReader:
    """Reads a body of .npy files, and hashes it where a digest was sent.

    The bytes go straight from the socket into the caller's memory where the server offers it and
    the body is long enough to gain by it; else they are copied there as ASGI delivers them.

    Args:
        scope: The request's ASGI scope.
        receive: Its ASGI channel; nothing of the body has been received.
        limit_bytes: The longest body that is taken.
        digests: The request's Content-Digest fields.
        idle_seconds: How long the sender may be silent.

    Attributes:
        length_bytes: The body's length by its Content-Length; None where the sender does not say.
        received_bytes: How much of it has been taken.

    Raises:
        BodyTooLarge: The body's length is known and too large.
        ContentRefused: The body's media type or encoding is not taken.
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
    ) -> None:
        headers = Headers(scope=scope)
        _check_content(headers)
        self.length_bytes = _read_length(headers, limit_bytes)
        self.received_bytes = 0
        self._limit_bytes = limit_bytes
        self._expected = parse_digest(", ".join(digests)) if digests else None
        self._hash = hashlib.sha256() if self._expected is not None else None
        self._receive_message = receive
        self._receive_into = self._find_extension(scope)
        self._idle_seconds = idle_seconds
        self._rest = b""
        self._ended = False

    @property
    def digest(self) -> bytes | None:
        """SHA-256 of all that was read so far, where a Content-Digest field was sent."""
        return self._hash.digest() if self._hash is not None else None

    async def read_header(self, name: str = "the matrix") -> tuple[NpyHeader, bytes]:
        """Reads the header of the next .npy file.

        Args:
            name: What the caller calls this matrix, for the refusal where there is none.

        Returns:
            What the header says, and its bytes.

        Raises:
            NpyError: It is not the header of a .npy file that is taken.
            BodyLengthWrong: The body ends before the header does.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        prefix = self._rest
        ask = _HEADER_BYTES[0]
        while (header := parse_header(prefix)) is None:
            chunk = await self._receive_some(ask)
            if not chunk:
                where = f"it ends inside the .npy header of {name}" if prefix else f"no {name}"
                raise BodyLengthWrong("body", f"{self.received_bytes} bytes", f"longer: {where}")
            prefix += chunk
            ask = _HEADER_BYTES[1]
        raw, self._rest = prefix[: header.offset_bytes], prefix[header.offset_bytes :]
        if self._hash is not None:
            self._hash.update(raw)
        return header, raw

    async def read_into(self, view: memoryview, *, behind_bytes: int = 0) -> None:
        """Reads the next bytes into memory of the caller's, until it is full.

        However the call ends, nothing is written into the view afterwards, or read from it.

        Args:
            view: Where the bytes go: one dimension of bytes.
            behind_bytes: How many the body must have behind them, for the refusal of a short one.

        Raises:
            BodyLengthWrong: The body ends before.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        if self._hash is None:
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

    async def read_all_small(self) -> bytes:
        """Reads what is left of a short body, all at once.

        Raises:
            BodyTooLarge: It is longer than `SMALL_BODY_BYTES`.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        content = self._rest
        while chunk := await self._receive_some(SMALL_BODY_BYTES):
            content += chunk
            if len(content) > SMALL_BODY_BYTES:
                raise BodyTooLarge("body", len(content), f"at most {SMALL_BODY_BYTES} bytes")
        self._rest = b""
        if self._hash is not None:
            self._hash.update(content)
        return content

    def expect_length(self, expected_bytes: int, reason: str) -> None:
        """Compares the body's length, where it is known, with what the headers say.

        Raises:
            BodyLengthWrong: They differ.
        """
        if self.length_bytes is not None and self.length_bytes != expected_bytes:
            limit = f"{expected_bytes} bytes, by its {reason}"
            raise BodyLengthWrong("body", f"{self.length_bytes} bytes", limit)

    async def finish(self, expected_bytes: int) -> None:
        """Makes sure that the body ends here and is the one that was announced.

        Raises:
            BodyLengthWrong: There is more.
            DigestMismatch: Its SHA-256 is another than Content-Digest says.
            UploadStalled: The sender fell silent.
            ClientDisconnect: The sender left.
        """
        if self._rest or await self._receive_some(1):
            value = f"more than {expected_bytes} bytes"
            raise BodyLengthWrong("body", value, f"{expected_bytes} bytes, by its .npy header")
        digest = self.digest
        if digest is not None and self._expected is not None and digest != self._expected:
            limit = f"{format_digest(digest)}, the digest of the {expected_bytes} bytes received"
            raise DigestMismatch("Content-Digest", format_digest(self._expected), limit)

    async def _fill(self, view: memoryview, behind_bytes: int) -> None:
        """Fills a view, from what was read too far and then from the connection."""
        filled = self._place(self._rest, view)
        while filled < len(view):
            if self._receive_into is not None:
                count = await self._pull(view[filled:])
            elif chunk := await self._receive():
                count = self._place(chunk, view[filled:])
            else:
                count = 0
            if not count:
                needed = self.received_bytes + len(view) - filled + behind_bytes
                limit = f"at least {needed} bytes, by its .npy header"
                raise BodyLengthWrong("body", f"{self.received_bytes} bytes", limit)
            filled += count

    def _place(self, chunk: bytes, view: memoryview) -> int:
        """Copies what fits into the view, and keeps the rest for the next one."""
        count = min(len(chunk), len(view))
        view[:count] = chunk[:count]
        self._rest = chunk[count:]
        return count

    async def _receive_some(self, most: int) -> bytes:
        """The next bytes, at most so many where they are pulled; none at the end."""
        if self._receive_into is None:
            return await self._receive()
        buffer = bytearray(most)
        return bytes(buffer[: await self._pull(memoryview(buffer))])

    async def _pull(self, view: memoryview) -> int:
        """Has the server fill a view; returns less than its length at the body's end only."""
        assert self._receive_into is not None
        try:
            count = await self._receive_into(view, idle_seconds=self._idle_seconds)
        except BodyCutOff as error:
            self.received_bytes += error.received_bytes
            raise ClientDisconnect from error
        except BodySilent as error:
            self.received_bytes += error.received_bytes
            raise self._describe_silence() from error
        self.received_bytes += count
        return count

    async def _receive(self) -> bytes:
        """The next bytes as ASGI delivers them; none at the end."""
        while not self._ended:
            try:
                async with asyncio.timeout(self._idle_seconds):
                    message = await self._receive_message()
            except TimeoutError as error:
                raise self._describe_silence() from error
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            if chunk := bytes(message.get("body", b"")):
                self.received_bytes += len(chunk)
                return chunk
        return b""

    def _describe_silence(self) -> UploadStalled:
        value = f"silent after {self.received_bytes} bytes"
        limit = f"sent without pauses of {self._idle_seconds:g} s (upload_idle_seconds)"
        return UploadStalled("body", value, limit)

    def _begin_hashing(self, piece: memoryview) -> Awaitable[None] | None:
        assert self._hash is not None
        if len(piece) <= SMALL_BODY_BYTES:
            self._hash.update(piece)
            return None
        return asyncio.get_running_loop().run_in_executor(None, self._hash.update, piece)

    def _find_extension(self, scope: Scope) -> Callable[..., Awaitable[int]] | None:
        """What pulls the body, where that is offered and pays."""
        if self.length_bytes is None or self.length_bytes <= SMALL_BODY_BYTES:
            return None
        extensions: dict[str, Any] = scope.get("extensions") or {}
        return extensions.get(RECEIVE_INTO)


def _check_content(headers: Headers) -> None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in MEDIA_TYPES:
        raise ContentRefused("Content-Type", media_type, " or ".join(MEDIA_TYPES))
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ContentRefused("Content-Encoding", encoding, "identity")


def _read_length(headers: Headers, limit_bytes: int) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    # The server has refused what is not a number.
    length = int(text)
    if length > limit_bytes:
        limit = f"at most {limit_bytes} bytes (max_matrix_bytes and a .npy header, each)"
        raise BodyTooLarge("Content-Length", length, limit)
    return length
