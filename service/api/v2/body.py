"""The body of a request for products: a JSON head, and the binary data of tensors after it."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from starlette.types import Receive, Scope

from wavetrim.service.api.v2.request import InferRequest, read_request
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge, ContentRefused, FieldProblem
from wavetrim.service.threads import run_to_end

HEAD_LENGTH: Final = "Inference-Header-Content-Length"
"""The header with the length of the JSON head; without it, all of the body is JSON."""

_HEAD_LENGTH: Final = HEAD_LENGTH.lower().encode()

MOST_HEAD_BYTES: Final = 8 * 2**20
"""The longest JSON head, enough for two matrices of 400 rows and columns; chosen. Parsing takes up
to 25 times as much memory, so one is read at a time."""

_ASKED_TYPES: Final = ("application/json", "application/octet-stream")
_MEDIA_TYPES: Final = (*_ASKED_TYPES, "")
"""Accepted media types of pages, and of all others: the public clients send none at all."""


class Bytes(Protocol):
    """The bytes of a body, in order."""

    async def read_into(self, view: memoryview) -> None:
        """Read the next bytes into the caller's memory, until it is full."""

    async def read_rest(self, most: int) -> bytes:
        """Read the rest, but at most `most` bytes."""

    async def finish(self, expected_bytes: int) -> None:
        """Make sure that the body ends here."""


class InferBody:
    """Reads a body from its beginning.

    Args:
        scope: The request's ASGI scope.
        receive: Its ASGI channel; nothing of the body has been received.
        limit_bytes: The longest body.

    Attributes:
        reader: The body as it is sent.

    Raises:
        BodyTooLarge: The length of the body or of its head is known and too large.
        ContentRefused: The body's media type or coding is not accepted.
        FieldProblem: The head's length is no number.
    """

    def __init__(self, scope: Scope, receive: Receive, *, limit_bytes: int) -> None:
        fields: dict[bytes, bytes] = dict(scope["headers"])
        _check_page(fields)
        self.reader = BodyReader(
            scope, receive, limit_bytes=limit_bytes, idle_seconds=IDLE_SECONDS,
            media_types=_MEDIA_TYPES, head="JSON head",
        )  # fmt: skip
        self._head_bytes = _read_head_length(fields.get(_HEAD_LENGTH))
        self._bytes: Bytes

    async def read_request(self, thinking: asyncio.Lock) -> InferRequest:
        """Read the head, and compare what it announces with the body's length.

        Args:
            thinking: Held while a long head is read, in a thread.

        Raises:
            RequestValidationError: It is not JSON, or breaks the schema.
            FieldProblem: A tensor does not have the announced size, or tensors do not fit together.
            BodyLengthWrong: The body is not as long as the head says.
            BodyTooLarge: The head is too long.
        """
        length = self.reader.length_bytes
        if length is not None and length <= SMALL_BODY_BYTES:
            self._bytes = _SmallBody(await self.reader.read_all_small())
        else:
            self._bytes = _StreamedBody(self.reader)
        content = await self._read_head()
        if len(content) > SMALL_BODY_BYTES:
            async with thinking:
                request = await run_to_end(read_request, content)
        else:
            request = read_request(content)
        self._total_bytes = len(content) + request.following_bytes
        self.reader.expect_length(self._total_bytes, "head and the tensors that it announces")
        return request

    async def read_into(self, view: memoryview) -> None:
        """Read the next tensor's elements into the caller's memory, until it is full."""
        await self._bytes.read_into(view)

    async def finish(self) -> None:
        """Make sure that the body ends with what its head announces."""
        await self._bytes.finish(self._total_bytes)

    async def _read_head(self) -> bytes:
        if self._head_bytes is not None:
            content = bytearray(self._head_bytes)
            await self._bytes.read_into(memoryview(content))
            return bytes(content)
        rest = await self._bytes.read_rest(MOST_HEAD_BYTES + 1)
        if len(rest) > MOST_HEAD_BYTES:
            limit = f"at most {MOST_HEAD_BYTES} bytes of JSON; send tensors as binary data"
            raise BodyTooLarge("body", f"more than {MOST_HEAD_BYTES} bytes", limit)
        return rest


def _check_page(fields: Mapping[bytes, bytes]) -> None:
    """Refuse calls that any web page can have a browser send: to another origin, of a plain type.

    A browser sends these types to another origin only if that allows it (Fetch, "CORS-safelisted
    request-header").

    Args:
        fields: The request's headers, their names in lower case.

    Raises:
        ContentRefused: The call may come from any web page.
    """
    media_type = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if b"origin" in fields and media_type.decode("latin-1") not in _ASKED_TYPES:
        named = media_type.decode("latin-1") or None
        limit = f"{' or '.join(_ASKED_TYPES)} where a web page calls"
        raise ContentRefused("Content-Type", named, limit)


class _SmallBody:
    """A body that was received as a whole."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._place = 0

    async def read_into(self, view: memoryview) -> None:
        end = self._place + len(view)
        if end > len(self._content):
            found, least = f"{len(self._content)} bytes", f"at least {end}, by its head"
            raise BodyLengthWrong("body", found, least)
        view[:] = self._content[self._place : end]
        self._place = end

    async def read_rest(self, most: int) -> bytes:
        del most  # no small body is as long
        rest, self._place = bytes(self._content[self._place :]), len(self._content)
        return rest

    async def finish(self, expected_bytes: int) -> None:
        if self._place != len(self._content):
            found, limit = f"{len(self._content)} bytes", f"{expected_bytes} bytes, by its head"
            raise BodyLengthWrong("body", found, limit)


class _StreamedBody:
    """A body whose bytes are received into the caller's memory."""

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader

    async def read_into(self, view: memoryview) -> None:
        await self._reader.read_into(view)

    async def read_rest(self, most: int) -> bytes:
        content = bytearray()
        while len(content) < most and (chunk := await self._reader.read_some(most - len(content))):
            content += chunk
        return bytes(content)

    async def finish(self, expected_bytes: int) -> None:
        await self._reader.finish(expected_bytes)


def _read_head_length(text: bytes | None) -> int | None:
    if text is None:
        return None
    if not (text.isdigit() and len(text) <= 20):
        raise FieldProblem(HEAD_LENGTH, text.decode("latin-1"), "a number of bytes")
    length = int(text)
    if length > MOST_HEAD_BYTES:
        limit = f"at most {MOST_HEAD_BYTES} bytes; send tensors as binary data"
        raise BodyTooLarge(HEAD_LENGTH, length, limit)
    return length
