"""Answers from memory that is reused, without a copy.

ASGI's `send` returns before the bytes have left, and the server may keep a reference in place of a
copy. Memory that is reused right after `send` would show the next owner's bytes to a slow client.
So it is sent in pieces, each after the one before has left the process.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from anyio import CancelScope

from wavetrim.service.api.checks import NPY_TYPES
from wavetrim.service.api.wire.exchange import EXCHANGE, SMALL_ANSWER_BYTES, Exchange

if TYPE_CHECKING:
    from wavetrim.service.api.calls import Call

RawHeaders = list[tuple[bytes, bytes]]
"""Headers in ASGI's form, in lower case."""

PIECE_BYTES: Final = 2**20
"""Bytes of one write; chosen: under TLS a write stops the event loop while it is encrypted."""


async def send_views(
    call: "Call", status: int, headers: RawHeaders, views: Sequence[memoryview]
) -> bool:
    """Answers with the bytes of some views, one after the other.

    However it ends, the server does not read the views afterwards, so they may be reused.

    Args:
        call: The call, of whose answer nothing has been sent.
        status: HTTP status.
        headers: Headers in lower case, without Content-Length.
        views: What is sent: one dimension of bytes each.

    Returns:
        True when everything has left; False when the connection was lost.
    """
    total_bytes = sum(len(view) for view in views)
    if call.method != "HEAD" and total_bytes > SMALL_ANSWER_BYTES:
        return await send_chunks(call, status, headers, _cut(views), total_bytes)
    length = (b"content-length", str(total_bytes).encode())
    headers = [*headers, length]
    await call.send({"type": "http.response.start", "status": status, "headers": headers})
    content = b"" if call.method == "HEAD" else b"".join(views)
    await call.send({"type": "http.response.body", "body": content})
    return True


async def _cut(views: Sequence[memoryview]) -> AsyncGenerator[memoryview]:
    """The bytes of views in pieces."""
    for view in views:
        for begin in range(0, len(view), PIECE_BYTES):
            yield view[begin : begin + PIECE_BYTES]


async def send_chunks(
    call: "Call",
    status: int,
    headers: RawHeaders,
    chunks: AsyncGenerator[bytes] | AsyncGenerator[memoryview],
    total_bytes: int | None = None,
) -> bool:
    """Answers with chunks, each of which is made while the one before it leaves.

    It ends early when the connection is lost. If making a chunk fails, the connection is broken
    off, so that the client sees an incomplete answer. However it ends, the server does not read
    the chunks afterwards.

    Args:
        call: The call, of whose answer nothing has been sent.
        status: HTTP status.
        headers: Headers in lower case, without Content-Length.
        chunks: What is sent.
        total_bytes: The length of all chunks; None if it is not known before their end.

    Returns:
        True when everything has left; False when the connection was lost.
    """
    if total_bytes is not None:
        headers = [*headers, (b"content-length", str(total_bytes).encode())]
    exchange: Exchange = call.scope[EXCHANGE]
    async with aclosing(chunks):
        await call.send({"type": "http.response.start", "status": status, "headers": headers})
        try:
            async for chunk in chunks:
                if not await exchange.drained():
                    return False
                await call.send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not await exchange.drained():
                return False
        except BaseException:
            exchange.abort()
            with CancelScope(shield=True):
                await exchange.drained()
            raise
        await call.send({"type": "http.response.body", "body": b""})
    return True


def choose_media_type(accept: str | None) -> str:
    """The media type of a .npy file: octet-stream only if Accept names that and not x-npy."""
    if accept is not None and NPY_TYPES[0] in accept and NPY_TYPES[1] not in accept:
        return NPY_TYPES[0]
    return NPY_TYPES[1]
