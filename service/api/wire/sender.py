"""Answers from memory that is used again: when it is free is known, not guessed.

ASGI's `send` returns before the bytes have left, and the server may keep a reference instead of a
copy: memory that is used again right behind `send` would show the next owner's bytes to a slow
reader. So the memory is sent in pieces, each after the one before has left the process.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

from anyio import CancelScope
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

RawHeaders = list[tuple[bytes, bytes]]
"""Headers as ASGI has them, in lower case."""

Drained = Callable[..., Awaitable[bool]]
"""`Exchange.drained`."""

PIECE_BYTES: Final = 2**20
"""One write: under TLS a longer one stops the event loop for as long as it is encrypted."""

SMALL_ANSWER_BYTES: Final = 2**16
"""Answers up to this length are copied and leave in one write, with their head."""

DRAINED: Final = "wavetrim.drained"
"""The ASGI extension that waits until all has left: `Exchange.drained`."""


async def send_views(
    scope: Scope,
    send: Send,
    *,
    status: int,
    headers: RawHeaders,
    views: Sequence[memoryview],
    piece_bytes: int = PIECE_BYTES,
    idle_seconds: float | None = None,
) -> bool:
    """Answers with the bytes of some views, one behind the other.

    When it returns, however it does, the server does not read the views any more, and they may be
    used again.

    Args:
        scope: The request's ASGI scope.
        send: Its ASGI channel; nothing has been sent.
        status: HTTP status.
        headers: Headers in lower case, without Content-Length.
        views: What is sent: one dimension of bytes each.
        piece_bytes: The length of one write.
        idle_seconds: How long the client may take nothing; the connection is given up then.

    Returns:
        True when everything has left; False when the connection was lost before.
    """
    total_bytes = sum(len(view) for view in views)
    length = (b"content-length", str(total_bytes).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    if scope["method"] == "HEAD" or total_bytes <= SMALL_ANSWER_BYTES:
        content = b"" if scope["method"] == "HEAD" else b"".join(views)
        await send({"type": "http.response.body", "body": content})
        return True
    drained = _find_extension(scope)
    async with _breaking_off(drained):
        for view in views:
            for begin in range(0, len(view), piece_bytes):
                piece = view[begin : begin + piece_bytes]
                body = piece if drained is not None else bytes(piece)
                await send({"type": "http.response.body", "body": body, "more_body": True})
                if drained is not None and not await drained(idle_seconds=idle_seconds):
                    return False
    await send({"type": "http.response.body", "body": b""})
    return True


async def send_chunks(
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    status: int,
    headers: RawHeaders,
    chunks: AsyncGenerator[bytes],
    total_bytes: int | None,
    idle_seconds: float,
) -> None:
    """Answers with bytes that are made while it is sent: each chunk while the one before leaves.

    It ends early when the connection is lost. If making a chunk fails, the connection is broken
    off, so the client sees that there was to be more.

    Args:
        scope: The request's ASGI scope.
        receive: Its ASGI channel.
        send: Its ASGI channel; nothing has been sent.
        status: HTTP status.
        headers: Headers in lower case, without Content-Length.
        chunks: What is sent.
        total_bytes: The length of all chunks; None where it is not known before their end.
        idle_seconds: How long the client may take nothing; the connection is given up then.
    """
    if total_bytes is not None:
        headers = [*headers, (b"content-length", str(total_bytes).encode())]
    drained = _find_extension(scope)
    async with aclosing(chunks):
        if drained is None:
            response = StreamingResponse(chunks, status)
            response.raw_headers = headers
            with suppress(TimeoutError):
                await response(scope, receive, _limit(send, idle_seconds))
            return
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async with _breaking_off(drained):
            async for chunk in chunks:
                if not await drained(idle_seconds=idle_seconds):
                    return
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not await drained(idle_seconds=idle_seconds):
                return
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def _breaking_off(drained: Drained | None) -> AsyncIterator[None]:
    """Ends the connection when the block fails: nobody reads what was sent from then on."""
    try:
        yield
    except BaseException:
        if drained is not None:
            with CancelScope(shield=True):
                await drained(idle_seconds=0.0)
        raise


def _limit(send: Send, idle_seconds: float) -> Send:
    """Lets no send take longer than `idle_seconds`: the client takes nothing then.

    Raises:
        TimeoutError: It took longer.
    """

    async def send_in_time(message: Message) -> None:
        async with asyncio.timeout(idle_seconds):
            await send(message)

    return send_in_time


def _find_extension(scope: Scope) -> Drained | None:
    extensions: dict[str, Any] = scope.get("extensions") or {}
    return extensions.get(DRAINED)
