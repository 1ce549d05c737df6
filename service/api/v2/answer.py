"""The answer to a request for products: a JSON head, and the result's bytes after it.

It is compressed, in pieces, if that is asked for.
"""

import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from pydantic_core import to_json

from wavetrim.native.element_types import find_dtype
from wavetrim.scheduler.engine.messages import Message
from wavetrim.service.api.calls import Call
from wavetrim.service.api.products.matmul import describe_product
from wavetrim.service.api.v2.request import InferRequest
from wavetrim.service.api.v2.schemas import MODEL_NAME, MODEL_VERSION, NAMES
from wavetrim.service.api.wire.sender import RawHeaders, send_chunks, send_views
from wavetrim.service.errors import FieldProblem
from wavetrim.service.threads import run_to_end

HEAD_LENGTH: Final = "Inference-Header-Content-Length"
"""The header with the length of the JSON head; without it, all of the body is JSON."""

_THREAD_ELEMENTS: Final = 2**12
"""Most elements whose JSON is not worth a thread; chosen."""

_WINDOWS: Final = {"gzip": 31, "deflate": 15}
"""zlib's `wbits` for each coding of an answer."""

_ASKED: Final = re.compile(r"(gzip|deflate)(?:[ \t]*;[ \t]*q=(?!0(?:\.0*)?$)[01](?:\.[0-9]*)?)?")
"""An Accept-Encoding that names one coding, and does not rule it out by `q=0`."""

_LEVEL: Final = 1
"""Compression level; chosen: matrices compress little at any level, and this is the fastest."""

_PIECE_BYTES: Final = 2**20
"""The most that is compressed at once, in a thread; chosen: it takes 5 to 30 ms."""


async def make_views(
    request: InferRequest, result: memoryview, message: Message
) -> list[memoryview]:
    """The answer's bytes: the head, and the result if it is sent as binary data.

    Args:
        request: The request.
        result: The result's bytes.
        message: The engine's message of success.

    Raises:
        FieldProblem: The result was asked for as JSON, which has no word for one of its numbers.
    """
    head = _describe_answer(request, message)
    (output,) = head["outputs"]
    if request.binary:
        output["parameters"] = {"binary_data_size": len(result)}
        return [memoryview(to_json(head)), result]
    elements = np.frombuffer(result, find_dtype(request.result.dtype))

    def write() -> bytes:
        odd = elements[~np.isfinite(elements)]
        if len(odd):
            limit = "asked for as binary data (binary_data): JSON has no such number"
            raise FieldProblem("C", float(odd[0]), limit)
        output["data"] = elements.tolist()
        return to_json(head)

    is_long = len(elements) > _THREAD_ELEMENTS
    return [memoryview(await run_to_end(write) if is_long else write())]


def _describe_answer(request: InferRequest, message: Message) -> dict[str, Any]:
    """The answer without elements: model, id, how it was computed, and the output."""
    plan = message["plan"]
    computed = {
        "f": plan.get("stack", 1) * plan["f"],
        "f_actual": message["timings"]["f_actual"],
        "kernel": plan["kernel"],
    }
    output: dict[str, Any] = {
        "name": "C",
        "datatype": NAMES[request.result.dtype],
        "shape": list(request.result.shape),
    }
    named = {"id": request.id} if request.id else {}
    return {
        **named,
        "model_name": MODEL_NAME,
        "model_version": MODEL_VERSION,
        "parameters": {name: value for name, value in computed.items() if value is not None},
        "outputs": [output],
    }


async def send_answer(call: Call, message: Message, views: list[memoryview]) -> None:
    """Send an answer. However it ends, nobody reads the result's memory afterwards."""
    headers: RawHeaders = describe_product(message)
    is_json = len(views) == 1
    headers.append(
        (b"content-type", b"application/json" if is_json else b"application/octet-stream")
    )
    if not is_json:
        headers.append((HEAD_LENGTH.lower().encode(), b"%d" % len(views[0])))
    coding = _choose_coding(call.headers.get("accept-encoding", ""))
    if coding is None:
        await send_views(call, 200, headers, views)
        return
    headers.append((b"content-encoding", coding.encode()))
    chunks = _compress(coding, views)
    await send_chunks(call, 200, headers, chunks)


def _choose_coding(accepted: str) -> str | None:
    """The coding of an answer, by the request's Accept-Encoding; None for none.

    Only a caller that names exactly one coding gets it. Libraries name all codings that they know
    by default, and compressing a matrix takes longer than sending it.
    """
    asked = _ASKED.fullmatch(accepted.strip().lower())
    return None if asked is None else asked[1]


async def _compress(coding: str, views: Sequence[memoryview]) -> AsyncGenerator[bytes]:
    """The bytes of some views, one after the other, compressed in pieces."""
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOWS[coding])
    for view in views:
        for begin in range(0, len(view), _PIECE_BYTES):
            piece = view[begin : begin + _PIECE_BYTES]
            if chunk := await run_to_end(partial(deflater.compress, piece)):
                yield chunk
    yield deflater.flush()
