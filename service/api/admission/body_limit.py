"""JSON bodies: received into memory, within limits, before their route is called."""

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.admission.auth import check_access
from wavetrim.service.api.problems import METHODS, describe_error
from wavetrim.service.api.v2.errors import is_protocols
from wavetrim.service.api.wire.inflated_source import inflate_document
from wavetrim.service.errors import BodyTooLarge, ServiceError, UploadStalled
from wavetrim.service.settings import Settings

MAX_BODY_BYTES: Final = 2**16
"""The largest JSON body; chosen: a job has some hundred bytes."""

BODY_SECONDS: Final = 10.0
"""How long a JSON body may take as a whole; chosen."""


class BodyLimit:
    """ASGI middleware that checks access, and then receives a whole JSON body for its route.

    FastAPI would read the body before it checks access, and would answer every error of that with
    400.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not _needs_access(scope["path"], scope["app"].state.settings):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # A method that no route has is refused by the application; its body is not read.
        has_document = scope["method"] in METHODS and _has_body(headers)
        try:
            await check_access(scope, headers)
            body = (
                await _receive_document(scope["method"], headers, receive) if has_document else None
            )
        except ServiceError as error:
            await describe_error(error)(scope, receive, send)
            return
        await self._app(scope, receive if body is None else _replay(body, receive), send)


def _needs_access(path: str, settings: Settings) -> bool:
    if path.startswith("/v1/") or is_protocols(path):
        return not path.startswith("/v2/health/")
    return path == "/metrics" and settings.metrics == "key"


async def receive_document(headers: Headers, receive: Receive) -> bytes:
    """Receives a whole JSON body, without its content coding.

    Raises:
        ContentRefused: The coding is not known.
        BodyLengthWrong: Its compressed data are cut off, or not alone.
        BodyTooLarge: It is longer than `MAX_BODY_BYTES`.
        UploadStalled: It is not complete within `BODY_SECONDS`.
        ClientDisconnect: The caller has left before the end.
    """
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                content += message.get("body", b"")
                _check_length(len(content))
                more = message.get("more_body", False)
    except TimeoutError as error:
        value = f"{len(content)} bytes after {BODY_SECONDS:g} s"
        raise UploadStalled("body", value, f"complete within {BODY_SECONDS:g} s") from error
    coding = headers.get("content-encoding", "identity")
    return inflate_document(bytes(content), coding, MAX_BODY_BYTES)


async def _receive_document(method: str, headers: Headers, receive: Receive) -> bytes:
    _check_length(int(headers.get("content-length", "0")))
    if method != "POST":  # no route reads it
        headers = Headers()
    return await receive_document(headers, receive)


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_length(length_bytes: int) -> None:
    if length_bytes > MAX_BODY_BYTES:
        raise BodyTooLarge("body", length_bytes, f"at most {MAX_BODY_BYTES} bytes")


def _replay(body: bytes, receive: Receive) -> Receive:
    """An ASGI channel that gives a body that was received, and then goes on."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
