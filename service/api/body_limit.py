"""A limit for the bodies that are read into memory before anybody has looked at them."""

from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.problems import describe_error
from wavetrim.service.errors import BodyTooLarge

MAX_BODY_BYTES: Final = 2**16
"""The largest JSON body; a job has some hundred bytes."""


class BodyLimit:
    """ASGI middleware that refuses bodies over `MAX_BODY_BYTES`.

    FastAPI reads a JSON body before it asks whether the caller may call at all.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length")
        if length is not None and int(length) > MAX_BODY_BYTES:
            await describe_error(_refuse(int(length)))(scope, receive, send)
            return
        received_bytes = 0

        async def receive_some() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > MAX_BODY_BYTES:
                # FastAPI makes "400" of every other error that comes while it reads a body.
                raise HTTPException(413, str(_refuse(received_bytes)))
            return message

        await self._app(scope, receive_some, send)


def _refuse(length_bytes: int) -> BodyTooLarge:
    return BodyTooLarge("body", length_bytes, f"at most {MAX_BODY_BYTES} bytes")
