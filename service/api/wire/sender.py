"""Answers from memory that is reused, without a copy.

ASGI's `send` returns before the bytes have left, and the server may keep a reference in place of a
copy. Memory that is reused right after `send` would show the next owner's bytes to a slow client.
So it is sent in pieces, each after the one before has left the process.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final

from anyio import CancelScope
from starlette.types import Scope, Send

from wavetrim.service.api.checks import NPY_TYPES
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.exchange import EXCHANGE, Exchange

RawHeaders = list[tuple[bytes, bytes]]
"""Headers in ASGI's form, in lower case."""

PIECE_BYTES: Final = 2**20
"""Bytes of one write; chosen: under TLS a write stops the event loop while it is encrypted."""

SMALL_ANSWER_BYTES: Final = 2**16
"""Longest answer that is copied and sent in one write with its head; chosen."""


async def send_views(
    scope: Scope,
    send: Send,
    *,
    status: int,
    headers: RawHeaders,
    views: Sequence[memoryview],
    idle_seconds: float | None = None,
) -> bool:
    """Answers with the bytes of some views, one after the other.

    However it ends, the server does not read the views afterwards, so they may be reused.

    Args:
        scope: The request's ASGI scope.
        send: Its ASGI channel; nothing has been sent.
        status: HTTP status.
        headers: Headers in lower case, without Content-Length.
        views: What is sent: one dimension of bytes each.
        idle_seconds: How long the client may receive nothing before the connection is aborted; None
            for `IDLE_SECONDS`.

    Returns:
        True when everything has left; False when the connection was lost.
    """
    total_bytes = sum(len(view) for view in views)
    length = (b"content-length", str(total_bytes).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    if scope["method"] == "HEAD" or total_bytes <= SMALL_ANSWER_BYTES:
        content = b"" if scope["method"] == "HEAD" else b"".join(views)
        await send({"type": "http.response.body", "body": content})
        return True
    exchange, seconds = scope[EXCHANGE], idle_seconds or IDLE_SECONDS
    async with _breaking_off(exchange):
        for view in views:
            for begin in range(0, len(view), PIECE_BYTES):
                piece = view[begin : begin + PIECE_BYTES]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                if not await exchange.drained(seconds):
                    return False
    await send({"type": "http.response.body", "body": b""})
    return True


async def send_chunks(
    scope: Scope,
    send: Send,
    *,
    status: int,
    headers: RawHeaders,
    chunks: AsyncGenerator[bytes],
    total_bytes: int | None = None,
    idle_seconds: float | None = None,
) -> None:
    """Answers with chunks, each of which is made while the one before it leaves.

    It ends early when the connection is lost. If making a chunk fails, the connection is broken
    off, so that the client sees an incomplete answer.

    Args:
        scope: The request's ASGI scope.
        send: Its ASGI channel; nothing has been sent.
        status: HTTP status.
        headers: Headers in lower case, without Content-Length.
        chunks: What is sent.
        total_bytes: The length of all chunks; None if it is not known before their end.
        idle_seconds: How long the client may receive nothing before the connection is aborted; None
            for `IDLE_SECONDS`.
    """
    if total_bytes is not None:
        headers = [*headers, (b"content-length", str(total_bytes).encode())]
    exchange, seconds = scope[EXCHANGE], idle_seconds or IDLE_SECONDS
    async with aclosing(chunks):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async with _breaking_off(exchange):
            async for chunk in chunks:
                if not await exchange.drained(seconds):
                    return
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not await exchange.drained(seconds):
                return
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def _breaking_off(exchange: Exchange) -> AsyncIterator[None]:
    """Aborts the connection when the block fails, so that nobody reads the memory afterwards."""
    try:
        yield
    except BaseException:
        with CancelScope(shield=True):
            await exchange.drained(0.0)
        raise


def choose_media_type(accept: str | None) -> str:
    """The media type of a .npy file: octet-stream only if Accept names that and not x-npy."""
    if accept is not None and NPY_TYPES[0] in accept and NPY_TYPES[1] not in accept:
        return NPY_TYPES[0]
    return NPY_TYPES[1]
