"""The body of a request for products: a JSON head, and the binary data of tensors after it."""

import asyncio
from typing import Final

from starlette.datastructures import Headers

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.api.admission.call import Call
from wavetrim.service.api.products.request_memory import (
    Received,
    RequestMemory,
    describe_operand,
    lay_out,
)
from wavetrim.service.api.v2.request import InferRequest, read_request
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import BodyTooLarge, ContentRefused, FieldProblem
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.storage.memory.intake import copy_bytes
from wavetrim.service.threads import run_to_end

HEAD_LENGTH: Final = "Inference-Header-Content-Length"
"""The header with the length of the JSON head; without it, all of the body is JSON."""

MOST_HEAD_BYTES: Final = 8 * 2**20
"""The longest JSON head, enough for two matrices of 400 rows and columns; chosen. Parsing takes up
to 25 times as much memory, so one is read at a time."""

_SHARED_BYTES: Final = 2 * SMALL_BODY_BYTES
"""The most that tensors and the result have in one piece of memory; larger ones are received apart.
Chosen."""

_ASKED_TYPES: Final = ("application/json", "application/octet-stream")
_MEDIA_TYPES: Final = (*_ASKED_TYPES, "")
"""Accepted media types of pages, and of all others: the public clients send none at all."""


class InferBody:
    """Reads a body from its beginning.

    Args:
        call: The call; nothing of its body has been received.
        limit_bytes: The largest tensor that is received or sent.

    Attributes:
        reader: The body as it is sent.

    Raises:
        BodyTooLarge: The length of the body or of its head is known and too large.
        ContentRefused: The body's media type or coding is not accepted.
        FieldProblem: The head's length is no number.
    """

    def __init__(self, call: Call, *, limit_bytes: int) -> None:
        _check_page(call.headers)
        self.reader = BodyReader(
            call.scope, call.receive, limit_bytes=3 * limit_bytes + MOST_HEAD_BYTES,
            idle_seconds=IDLE_SECONDS, media_types=_MEDIA_TYPES, head="JSON head",
        )  # fmt: skip
        self._head_bytes = _read_head_length(call.headers.get(HEAD_LENGTH))
        self._limit_bytes = limit_bytes

    async def receive(
        self, memory: RequestMemory, thinking: asyncio.Lock
    ) -> tuple[InferRequest, Received]:
        """Receive the head and the tensors, and make room for the result.

        Args:
            memory: The request's memory.
            thinking: Held while a long head is read, in a thread.

        Raises:
            RequestValidationError: The head is not JSON, or breaks the schema.
            FieldProblem: A tensor does not have the announced size, or tensors do not fit together.
            BodyLengthWrong: The body is not as long as the head says.
            BodyTooLarge: The head, a tensor or the result is too large.
            QuotaReached: The caller may not have as much at once.
            StorageFull: There is no memory for them.
        """
        content = await self._read_head()
        if len(content) > SMALL_BODY_BYTES:
            async with thinking:
                request = await run_to_end(read_request, content)
        else:
            request = read_request(content)
        total_bytes = len(content) + request.following_bytes
        self.reader.expect_length(total_bytes, "head and the tensors that it announces")
        received = await self._place(request, memory)
        await self.reader.finish(total_bytes)
        return request, received

    async def _read_head(self) -> bytes:
        if self._head_bytes is not None:
            content = bytearray(self._head_bytes)
            await self.reader.read_into(memoryview(content))
            return bytes(content)
        rest = await self.reader.read_rest(MOST_HEAD_BYTES + 1)
        if len(rest) > MOST_HEAD_BYTES:
            limit = f"at most {MOST_HEAD_BYTES} bytes of JSON; send tensors as binary data"
            raise BodyTooLarge("body", f"more than {MOST_HEAD_BYTES} bytes", limit)
        return rest

    async def _place(self, request: InferRequest, memory: RequestMemory) -> Received:
        """Bring tensors into memory. Small ones and the result share one piece of it."""
        sizes = [*request.sizes_bytes, request.result_bytes]
        if max(sizes) > self._limit_bytes:
            raise _describe_largest(request, self._limit_bytes)
        begins, total_bytes = lay_out(sizes)
        shared = None
        if sum(sizes) <= _SHARED_BYTES:
            shared = await memory.obtain(max(1, total_bytes))
        operands: dict[str, Operand] = {}
        rooms: list[Extent] = []
        for tensor, size_bytes, begin in zip(request.inputs, sizes, begins, strict=False):
            room = shared
            if room is None and tensor.values is None:
                room = await memory.receive(size_bytes, self.reader.read_into)
            elif room is None:
                room = await memory.obtain(max(1, size_bytes))
            place = begin if shared else 0
            view = room.view[place : place + size_bytes]
            if tensor.values is not None:
                copy_bytes(view, tensor.values.reshape(-1).view("u1").data)
            elif shared is not None:
                await self.reader.read_into(view)
            operands[tensor.name] = describe_operand(room, place, tensor)
            rooms.append(room)
        room = shared or await memory.obtain(max(1, request.result_bytes))
        place = begins[-1] if shared else 0
        m, n, dtype = request.problem.m, request.problem.n, request.problem.dtype
        out = Operand(room.slab, room.offset_bytes + place, m, n, dtype, stack=request.stack)
        answer = room.view[place : place + request.result_bytes]
        used = "ABC" if request.beta != 0 else "AB"
        rooms = [shared] if shared else [*rooms, room]
        return Received([operands[name] for name in used], out, answer, rooms)


def _check_page(headers: Headers) -> None:
    """Refuse calls that any web page can have a browser send: to another origin, of a plain type.

    A browser sends these types to another origin only if that allows it (Fetch, "CORS-safelisted
    request-header").

    Args:
        headers: The request's headers.

    Raises:
        ContentRefused: The call may come from any web page.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if "origin" in headers and media_type not in _ASKED_TYPES:
        limit = f"{' or '.join(_ASKED_TYPES)} where a web page calls"
        raise ContentRefused("Content-Type", media_type or None, limit)


def _describe_largest(request: InferRequest, limit_bytes: int) -> BodyTooLarge:
    """The refusal of a request's largest tensor."""
    sizes = {f"size of {one.name}": one.size_bytes for one in request.inputs}
    sizes["result size"] = request.result_bytes
    name = max(sizes, key=lambda name: sizes[name])
    limit = f"at most {limit_bytes} bytes (max_matrix_bytes)"
    return BodyTooLarge(name, sizes[name], limit)


def _read_head_length(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise FieldProblem(HEAD_LENGTH, text, "a number of bytes")
    length = int(text)
    if length > MOST_HEAD_BYTES:
        limit = f"at most {MOST_HEAD_BYTES} bytes; send tensors as binary data"
        raise BodyTooLarge(HEAD_LENGTH, length, limit)
    return length
