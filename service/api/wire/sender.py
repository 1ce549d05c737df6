"""Answers from memory that is used again: when it is free is known, not guessed.

ASGI's `send` returns before the bytes have left, and the server may keep a reference instead of a
copy: memory that is used again right behind `send` would show the next owner's bytes to a slow
reader. So the memory is sent in pieces, each after the one before has left the process.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from anyio import CancelScope
from starlette.types import Scope, Send

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
    headers: Sequence[tuple[bytes, bytes]],
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
    try:
        for view in views:
            for begin in range(0, len(view), piece_bytes):
                piece = view[begin : begin + piece_bytes]
                body = piece if drained is not None else bytes(piece)
                await send({"type": "http.response.body", "body": body, "more_body": True})
                if drained is not None and not await drained(idle_seconds=idle_seconds):
                    return False
    except BaseException:
        if drained is not None:
            with CancelScope(shield=True):
                await drained(idle_seconds=0.0)  # the connection ends here, and frees the memory
        raise
    await send({"type": "http.response.body", "body": b""})
    return True


def _find_extension(scope: Scope) -> Callable[..., Awaitable[bool]] | None:
    extensions: dict[str, Any] = scope.get("extensions") or {}
    return extensions.get(DRAINED)
