"""A request's body, streamed into its final place while it arrives."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from anyio import CancelScope
from fastapi import Request

from wavetrim.service.api.wire.digests import format_digest, parse_digest
from wavetrim.service.errors import (
    BodyLengthWrong,
    BodyTooLarge,
    ContentRefused,
    DigestMismatch,
    UploadStalled,
)
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import PendingMatrix
from wavetrim.service.storage.npy import MAX_HEADER_BYTES, NpyHeader, parse_header
from wavetrim.service.threads import run_to_end

BATCH_BYTES: Final = 4 * 2**20
"""So much is collected before it is written: large enough that switching threads costs nothing."""

_BATCH_PIECES: Final = 512
"""And so many pieces: `pwritev` takes 1024."""

MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npy")
"""The media types of a .npy file."""


class RequestBody:
    """Reads a body of .npy files once, from the front, and hashes it where a digest was sent.

    Args:
        request: The request; nothing of its body has been read.
        max_matrix_bytes: The largest .npy file that is taken.
        matrices: How many .npy files the body has, one behind the other.
        digests: The request's Content-Digest fields.
        idle_seconds: How long the sender may be silent.

    Raises:
        BodyTooLarge: The body's length is known and too large.
        ContentRefused: The body's media type or encoding is not taken.
        DigestMalformed: The Content-Digest field cannot be read.
    """

    def __init__(
        self,
        request: Request,
        *,
        max_matrix_bytes: int,
        matrices: int,
        digests: Sequence[str] | None,
        idle_seconds: float,
    ) -> None:
        _check_content(request)
        self._length = _read_length(request, matrices * (max_matrix_bytes + MAX_HEADER_BYTES))
        self._expected = parse_digest(", ".join(digests)) if digests else None
        self._hash = hashlib.sha256() if self._expected is not None else None
        self._chunks = aiter(request.stream())
        self._idle_seconds = idle_seconds
        self._rest = b""
        self.received_bytes = 0

    @property
    def digest(self) -> bytes | None:
        """SHA-256 of all that was taken so far, where a Content-Digest field was sent."""
        return self._hash.digest() if self._hash is not None else None

    async def read_header(self) -> tuple[NpyHeader, bytes]:
        """Takes the header of the next .npy file.

        Returns:
            What the header says, and its bytes.

        Raises:
            NpyError: It is not the header of a .npy file that is taken.
            BodyLengthWrong: The body ends inside the header.
        """
        prefix = self._rest
        while (header := parse_header(prefix)) is None:
            chunk = await self._receive()
            if not chunk:
                value = f"{self.received_bytes} bytes"
                raise BodyLengthWrong("body", value, "longer: it ends inside a .npy header")
            prefix += chunk
        raw, self._rest = prefix[: header.offset_bytes], prefix[header.offset_bytes :]
        if self._hash is not None:
            self._hash.update(raw)
        return header, raw

    def expect_length(self, expected_bytes: int, reason: str) -> None:
        """Compares the body's length, where it is known, with what the headers say.

        Raises:
            BodyLengthWrong: They differ.
        """
        if self._length is not None and self._length != expected_bytes:
            limit = f"{expected_bytes} bytes, by its {reason}"
            raise BodyLengthWrong("body", f"{self._length} bytes", limit)

    async def copy_to(self, path: Path, offset: int, count: int) -> None:
        """Takes `count` bytes and writes them into a file, off the event loop, as they arrive.

        Args:
            path: An existing file.
            offset: Where in the file they begin.
            count: How many, at least 1.

        Raises:
            BodyLengthWrong: The body ends before.
            OSError: The file cannot be written.
        """
        loop = asyncio.get_running_loop()
        writing = loop.create_future()
        writing.set_result(None)
        left = count
        try:
            while left:
                pieces = await self._take_batch(left)
                batch = sum(map(len, pieces))
                await writing
                writing = loop.run_in_executor(None, self._write, path, offset, pieces)
                offset += batch
                left -= batch
            await writing
        finally:
            # A cancelled call must not leave before its thread, which still writes.
            with CancelScope(shield=True):
                await asyncio.wait({writing})

    async def finish(self, expected_bytes: int) -> None:
        """Makes sure that the body ends here and is the one that was announced.

        Raises:
            BodyLengthWrong: There is more.
            DigestMismatch: Its SHA-256 is another than Content-Digest says.
        """
        if self._rest or await self._receive():
            value = f"more than {expected_bytes} bytes"
            raise BodyLengthWrong("body", value, f"{expected_bytes} bytes, by its .npy header")
        digest = self.digest
        if digest is not None and self._expected is not None and digest != self._expected:
            limit = f"{format_digest(digest)}, the digest of the {expected_bytes} bytes received"
            raise DigestMismatch("Content-Digest", format_digest(self._expected), limit)

    async def _take_batch(self, left: int) -> list[bytes]:
        """The next pieces: about `BATCH_BYTES`, at most `left` bytes."""
        pieces: list[bytes] = []
        size = 0
        while size < min(left, BATCH_BYTES) and len(pieces) < _BATCH_PIECES:
            chunk = self._rest or await self._receive()
            if not chunk:
                limit = f"at least {self.received_bytes + left - size} bytes, by its .npy header"
                raise BodyLengthWrong("body", f"{self.received_bytes} bytes", limit)
            piece, self._rest = chunk[: left - size], chunk[left - size :]
            pieces.append(piece)
            size += len(piece)
        return pieces

    async def _receive(self) -> bytes:
        """The next bytes; none at the end."""
        try:
            async with asyncio.timeout(self._idle_seconds):
                chunk = await anext(self._chunks, b"")
        except TimeoutError as error:
            value = f"silent after {self.received_bytes} bytes"
            limit = f"sent without pauses of {self._idle_seconds:g} s (upload_idle_seconds)"
            raise UploadStalled("body", value, limit) from error
        self.received_bytes += len(chunk)
        return chunk

    def _write(self, path: Path, offset: int, pieces: list[bytes]) -> None:
        if self._hash is not None:
            for piece in pieces:
                self._hash.update(piece)
        _write_pieces(path, offset, pieces)


@asynccontextmanager
async def receive_matrix(
    body: RequestBody, header: NpyHeader, store: MatrixStore, *, temporary: bool = False
) -> AsyncIterator[PendingMatrix]:
    """Takes the elements behind a header into a new file; removes it when the block fails.

    Args:
        body: The body; `header` was the last that was taken from it.
        header: What the elements are.
        store: Makes the file.
        temporary: True for a matrix that does not outlive the service.

    Raises:
        BodyTooLarge: The file would be larger than one matrix may be.
        StorageFull: There is no room for it.
        BodyLengthWrong: The body ends before.
    """
    pending = await run_to_end(
        store.allocate,
        header.rows,
        header.columns,
        header.dtype,
        fortran_order=header.fortran_order,
        temporary=temporary,
    )
    try:
        await body.copy_to(pending.path, pending.offset_bytes, header.data_bytes)
        yield pending
    except BaseException:
        await run_to_end(store.discard, pending)
        raise


def _write_pieces(path: Path, offset: int, pieces: list[bytes]) -> None:
    """Writes pieces behind each other into an existing file."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        written = os.pwritev(file, pieces, offset)
        while (rest := sum(map(len, pieces)) - written) > 0:
            # The kernel takes less only at its own limits or next to a full disk.
            written += os.pwrite(file, b"".join(pieces)[-rest:], offset + written)
    finally:
        os.close(file)


def _check_content(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in MEDIA_TYPES:
        raise ContentRefused("Content-Type", media_type, " or ".join(MEDIA_TYPES))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ContentRefused("Content-Encoding", encoding, "identity")


def _read_length(request: Request, limit_bytes: int) -> int | None:
    text = request.headers.get("content-length")
    if text is None:
        return None
    # The server has refused what is not a number.
    length = int(text)
    if length > limit_bytes:
        limit = f"at most {limit_bytes} bytes (max_matrix_bytes and a .npy header, each)"
        raise BodyTooLarge("Content-Length", length, limit)
    return length
