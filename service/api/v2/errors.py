"""The protocol's `error` member, which repeats the `detail` of problem documents of /v2."""

import json
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.problems import MEDIA_TYPE

PREFIX: Final = "/v2"
"""Where the protocol's paths begin."""

_PROBLEM: Final = (b"content-type", MEDIA_TYPE.encode())


class ErrorMember:
    """ASGI middleware that adds `error` to the problem documents of the protocol's paths.

    Clients of the protocol read only this of a refusal.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http" or not is_protocols(scope["path"]):
            await self._app(scope, receive, send)
            return
        begin: Message = {}
        content = bytearray()

        async def send_with_error(message: Message) -> None:
            nonlocal begin
            if not begin and message["type"] == "http.response.start":
                if _PROBLEM in message["headers"] and scope["method"] != "HEAD":
                    begin = message
                    return
            elif begin:
                content.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                message = await _send_begin(send, begin, bytes(content))
                begin = {}
            await send(message)

        await self._app(scope, receive, send_with_error)


def is_protocols(path: str) -> bool:
    """Whether a path is one of the protocol's."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def add_error(content: bytes) -> bytes:
    """A problem document with `error` added."""
    document = json.loads(content)
    return json.dumps({**document, "error": document["detail"]}, allow_nan=False).encode()


async def _send_begin(send: Send, begin: Message, content: bytes) -> Message:
    """Send an answer's begin with the length of its changed body; returns the body."""
    changed = add_error(content)
    kept = [field for field in begin["headers"] if field[0] != b"content-length"]
    length = (b"content-length", b"%d" % len(changed))
    await send({**begin, "headers": [*kept, length]})
    return {"type": "http.response.body", "body": changed}
