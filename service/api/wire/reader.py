"""Reads the bodies of all requests, each once and from its beginning."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache
from typing import Final

from anyio import CancelScope
from starlette.requests import ClientDisconnect, Request

from wavetrim.service.api.checks import NPY_TYPES, check_content, check_length
from wavetrim.service.api.wire.body_pull import (
    IDLE_SECONDS,
    LEAST_BYTES_PER_SECOND,
    describe_stall,
)
from wavetrim.service.api.wire.content import Inflater, format_digest, parse_digest
from wavetrim.service.api.wire.exchange import EXCHANGE, Exchange
from wavetrim.service.errors import (
    BodyLengthWrong,
    BodyTooLarge,
    DigestMismatch,
)
from wavetrim.service.storage.matrices.npy import Layout, parse_header

SMALL_BODY_BYTES: Final = 2**16
"""Longest body, and part of one, that is not worth a place or a thread; chosen."""

_HASH_BYTES: Final = 8 * 2**20
"""Bytes that are hashed at a time, in a thread, while the next bytes arrive; chosen."""

_HEADER_BYTES: Final = (128, 4096)
"""Bytes that are read to find a header, first and then: NumPy's have 128 or, seldom, more."""

_parse = lru_cache(maxsize=1024)(parse_header)
"""`parse_header` with a cache: headers of one shape are the same bytes, and shapes come again."""


class BodyReader:
    """Reads a body into memory of the caller, and hashes it if a digest was sent.

    The bytes of a long body of known length go straight from the socket into that memory; those of
    a short one, or of one in chunks, are copied there as ASGI delivers them. A compressed body is
    inflated.

    Args:
        request: The request; nothing of its body has been received.
        most_bytes: The most that its matrices may have, each with its head; None for any length.
        media_types: Accepted media types; none for any.
        head: The part of the body that says how long it is, for refusals.

    Attributes:
        length_bytes: The body's length; None if it comes in chunks, or compressed.
        received_bytes: How many bytes have come.

    Raises:
        ContentRefused: The body's media type or encoding is not accepted.
        BodyTooLarge: It is longer than `most_bytes`, by what the request says.
        DigestMalformed: The Content-Digest field cannot be read.
    """

    def __init__(
        self,
        request: Request,
        *,
        most_bytes: int | None = None,
        media_types: Collection[str] = NPY_TYPES,
        head: str = ".npy header",
    ) -> None:
        headers = request.headers
        coding = check_content(headers, media_types)
        is_plain = coding == "identity"
        exchange: Exchange | None = request.scope.get(EXCHANGE) if is_plain else None
        self._exchange = exchange
        self.length_bytes = None if exchange is None else exchange.length_bytes
        if most_bytes is not None:
            why = f" (max_matrix_bytes each, with a {head})"
            check_length(self.length_bytes, most_bytes, field="Content-Length", why=why)
        self._pulled = exchange if (self.length_bytes or 0) > SMALL_BODY_BYTES else None
        self.received_bytes = 0
        self._receive_message = request.receive
        self._head = head
        self._inflater = None if is_plain else Inflater(coding, self._receive)
        self._window_seconds, self._window_bytes = 0.0, 0
        self._rest = memoryview(b"")
        self._ended = False
        self._expected_bytes: int | None = None
        digests = headers.getlist("content-digest")
        self._expected = parse_digest(", ".join(digests)) if digests else None
        self._hash = hashlib.sha256() if self._expected is not None else None
        self._hashes = [self._hash] if self._hash is not None and is_plain else []

    @property
    def digest(self) -> bytes | None:
        """SHA-256 of all bytes that were read; None if no Content-Digest field was sent."""
        return self._hash.digest() if self._hash is not None else None

    def hash_rest(self, begin: bytes) -> "hashlib._Hash":
        """A SHA-256 of `begin` and of all bytes that are read from now on."""
        self._hashes.append(hashlib.sha256(begin))
        return self._hashes[-1]

    async def read_header(self, name: str = "matrix") -> Layout:
        """Reads the header of the next .npy file.

        Args:
            name: Name of this matrix, for the refusal if it is missing.

        Raises:
            NpyError: It is not the header of a .npy file that the service accepts.
            BodyLengthWrong: The body ends before the header does.
            UploadStalled, ClientDisconnect: As `read_rest`.
        """
        first, more = _HEADER_BYTES
        prefix = await self._receive_some(first)
        while (header := _parse(bytes(prefix[:first])) or parse_header(bytes(prefix))) is None:
            chunk = await self._receive_some(more)
            if not chunk:
                where = f"it ends inside the .npy header of the {name}" if prefix else f"no {name}"
                raise BodyLengthWrong("body", f"{self._given_bytes} bytes", f"longer: {where}")
            prefix = bytes(prefix) + chunk
        self._rest = memoryview(prefix)[header.offset_bytes :]
        if self._hashes:
            self._update(prefix[: header.offset_bytes])
        return header

    async def read_into(self, view: memoryview) -> None:
        """Reads the next bytes into the caller's memory, until it is full.

        However the call ends, the view is neither written nor read afterwards.

        Args:
            view: Where the bytes go: one dimension of bytes.

        Raises:
            BodyLengthWrong: The body ends too early.
            UploadStalled, ClientDisconnect: As `read_rest`.
        """
        if not self._hashes:
            await self._fill(view)
            return
        hashing: Awaitable[None] | None = None
        try:
            for begin in range(0, len(view), _HASH_BYTES):
                piece = view[begin : begin + _HASH_BYTES]
                await self._fill(piece)
                if hashing is not None:
                    await hashing
                hashing = self._begin_hashing(piece)
        finally:
            if hashing is not None:
                with CancelScope(shield=True):
                    await asyncio.wait({asyncio.ensure_future(hashing)})

    async def read_rest(self, most_bytes: int, *, why: str = "") -> bytes:
        """Reads the rest of the body.

        Args:
            most_bytes: The most bytes that it may have.
            why: Where this limit comes from.

        Raises:
            BodyTooLarge: It is longer.
            UploadStalled: The sender fell silent, or is too slow.
            ClientDisconnect: The sender left.
        """
        received = bytearray()
        while chunk := await self._receive_some(most_bytes + 1):
            received += chunk
            if len(received) > most_bytes:
                value, limit = f"more than {most_bytes} bytes", f"at most {most_bytes} bytes{why}"
                raise BodyTooLarge("body", value, limit)
        content = bytes(received)
        self._update(content)
        return content

    def expect_length(self, expected_bytes: int, say_why: Callable[[], str]) -> None:
        """Compares the body's length with what its head says, now or when its end has come.

        Raises:
            BodyLengthWrong: They differ.
        """
        self._expected_bytes = expected_bytes
        if self.length_bytes is not None and self.length_bytes != expected_bytes:
            limit = f"{expected_bytes} bytes, by its {say_why()}"
            raise BodyLengthWrong("body", f"{self.length_bytes} bytes", limit)

    async def finish(self) -> None:
        """Makes sure that the body ends here, and that its digest is right.

        Raises:
            BodyLengthWrong: There is more.
            DigestMismatch: Its SHA-256 differs from Content-Digest.
            UploadStalled, ClientDisconnect: As `read_rest`.
        """
        if more := await self._receive_some(1):
            expected = f"{self._given_bytes - len(more)} bytes"
            limit = f"{expected}, by its {self._head}"
            raise BodyLengthWrong("body", f"more than {expected}", limit)
        if self._expected is not None and (digest := self.digest) != self._expected:
            assert digest is not None
            limit = (
                f"{format_digest(digest)}, the digest of the {self.received_bytes} bytes received"
            )
            raise DigestMismatch("Content-Digest", format_digest(self._expected), limit)

    @property
    def _given_bytes(self) -> int:
        """How many bytes of content have come: of a compressed body, inflated."""
        return self.received_bytes if self._inflater is None else self._inflater.inflated_bytes

    async def _fill(self, view: memoryview) -> None:
        filled = 0
        while filled < len(view):
            if self._pulled is not None and not self._rest:
                count = await self._pull(view[filled:])
            else:
                chunk = memoryview(await self._receive_some(len(view)))
                count = min(len(chunk), len(view) - filled)
                view[filled : filled + count] = chunk[:count]
                self._rest = chunk[count:]
            if not count:
                needed = self._expected_bytes or self._given_bytes + len(view) - filled
                limit = f"at least {needed} bytes, by its {self._head}"
                raise BodyLengthWrong("body", f"{self._given_bytes} bytes", limit)
            filled += count

    async def _receive_some(self, most: int) -> bytes | memoryview:
        """The next bytes, at most `most` if they are pulled; empty at the end."""
        if self._rest:
            rest, self._rest = self._rest, memoryview(b"")
            return rest
        if self._pulled is not None:
            assert self.length_bytes is not None
            buffer = bytearray(min(most, self.length_bytes - self.received_bytes))
            return bytes(buffer[: await self._pull(memoryview(buffer))]) if buffer else b""
        return await (self._receive if self._inflater is None else self._inflater.receive)()

    async def _pull(self, view: memoryview) -> int:
        """Has the server fill a view; returns less than its length only at the body's end."""
        assert self._pulled is not None
        try:
            count = await self._pulled.receive_into(view)
        except BaseException:  # also where the time of a document is over
            self.received_bytes = self._pulled.received_bytes
            raise
        self.received_bytes += count
        return count

    async def _receive(self) -> bytes:
        """The next bytes as ASGI delivers them; empty at the end."""
        clock = asyncio.get_running_loop().time
        while not self._ended:
            asked_at = clock()
            if self._exchange is not None:
                self._exchange.acknowledge()
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    message = await self._receive_message()
            except TimeoutError as error:
                raise describe_stall(self.received_bytes, slow=False) from error
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            chunk = bytes(message.get("body", b""))
            self.received_bytes += len(chunk)
            self._window_seconds += clock() - asked_at
            self._window_bytes += len(chunk)
            if self._window_seconds >= IDLE_SECONDS:
                least_bytes = self._window_seconds * LEAST_BYTES_PER_SECOND
                if self._window_bytes < least_bytes and not self._ended:
                    raise describe_stall(self.received_bytes, slow=True)
                self._window_seconds, self._window_bytes = 0.0, 0
            if chunk:
                # The digest is that of what was sent (RFC 9530, section 2).
                if self._inflater is not None and self._hash is not None:
                    self._hash.update(chunk)
                return chunk
        return b""

    def _begin_hashing(self, piece: memoryview) -> Awaitable[None] | None:
        if len(piece) <= SMALL_BODY_BYTES:
            self._update(piece)
            return None
        return asyncio.get_running_loop().run_in_executor(None, self._update, piece)

    def _update(self, piece: bytes | memoryview) -> None:
        for one in self._hashes:
            one.update(piece)
