"""JSON bodies: received into memory, within limits, before their route is called."""

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from wavetrim.service.api.admission.call import Call
from wavetrim.service.api.wire.inflated_source import inflate_document
from wavetrim.service.errors import BodyTooLarge, UploadStalled

MAX_BODY_BYTES: Final = 2**16
"""The largest JSON body, but for lists of jobs; chosen: a job has some hundred bytes."""

BODY_SECONDS: Final = 10.0
"""How long a JSON body may take as a whole; chosen."""


async def receive_document(call: Call, *, most_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Receives a whole JSON body, without its content coding.

    Args:
        call: The call; nothing of its body has been received.
        most_bytes: The longest body.

    Raises:
        ContentRefused: The coding is not known.
        BodyLengthWrong: Its compressed data are cut off, or not alone.
        BodyTooLarge: It is longer than `most_bytes`.
        UploadStalled: It is not complete within `BODY_SECONDS`.
        ClientDisconnect: The caller has left before the end.
    """
    _check_length(int(call.headers.get("content-length", "0")), most_bytes)
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await call.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                content += message.get("body", b"")
                _check_length(len(content), most_bytes)
                more = message.get("more_body", False)
    except TimeoutError as error:
        value = f"{len(content)} bytes after {BODY_SECONDS:g} s"
        raise UploadStalled("body", value, f"complete within {BODY_SECONDS:g} s") from error
    coding = call.headers.get("content-encoding", "identity")
    return inflate_document(bytes(content), coding, most_bytes)


def _check_length(length_bytes: int, most_bytes: int) -> None:
    if length_bytes > most_bytes:
        raise BodyTooLarge("body", length_bytes, f"at most {most_bytes} bytes")


def replay(body: bytes, receive: Receive) -> Receive:
    """An ASGI channel that gives a body that was received, and then goes on."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
