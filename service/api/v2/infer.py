"""POST /v2/models/matmul/infer: products by the Open Inference Protocol.

A body is a JSON head, and the binary data of tensors after it.
"""

import time
from typing import Any, Final

from fastapi import APIRouter, Depends, Response
from starlette.datastructures import Headers

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.checks import check_length, read_media_type
from wavetrim.service.api.openapi import (
    BINARY,
    PRODUCT_HEADERS,
    describe_headers,
    describe_request_headers,
    list_refusals,
    refer,
)
from wavetrim.service.api.products.matmul import compute, open_memory
from wavetrim.service.api.v2.answer import HEAD_LENGTH, make_views, send_answer
from wavetrim.service.api.v2.model import check_model, name_model, name_version
from wavetrim.service.api.v2.request import InferRequest, read_request
from wavetrim.service.api.v2.schemas import MOST_HEAD_BYTES, InferAnswer, InferHead
from wavetrim.service.api.wire.reader import SMALL_BODY_BYTES, BodyReader
from wavetrim.service.errors import BodyTooLarge, ContentRefused, FieldProblem
from wavetrim.service.storage.matrices.intake import RequestMemory, copy_bytes
from wavetrim.service.threads import run_to_end

_ASKED_TYPES: Final = ("application/json", "application/octet-stream")
_MEDIA_TYPES: Final = (*_ASKED_TYPES, "")
"""Accepted media types of pages, and of all others: the public clients send none at all."""

_PATH: Final = "/v2/models/{model_name}/infer"
_VERSION_PATH: Final = "/v2/models/{model_name}/versions/{version}/infer"

router = APIRouter(tags=["Open Inference Protocol"], route_class=CallRoute)


def _describe() -> dict[str, Any]:
    """The OpenAPI description of a route for products."""
    answer = {
        "description": "The product: JSON, or a JSON head with binary data after it.",
        "content": {
            "application/json": refer(InferAnswer),
            "application/octet-stream": BINARY,
        },
        "headers": describe_headers(*PRODUCT_HEADERS, HEAD_LENGTH, "Content-Encoding"),
    }
    body = {
        "required": True,
        "description": "A JSON head, and after it the binary data of the inputs that announce it "
        f"(`binary_data_size`), in their order; then {HEAD_LENGTH} is the head's length. It may be "
        "compressed with gzip or deflate.",
        "content": {
            "application/json": refer(InferHead),
            "application/octet-stream": BINARY,
        },
    }
    asked = (HEAD_LENGTH, "Content-Digest", "Content-Encoding", "Accept-Encoding")
    return {
        "response_class": Response,
        "responses": {200: answer, **list_refusals(*_STATUSES)},
        "openapi_extra": {"requestBody": body, "parameters": describe_request_headers(*asked)},
    }


_STATUSES: Final = (404, 408, 409, 413, 415, 422, 429, 500, 504, 507)


@router.post(_PATH, dependencies=[Depends(name_model)], **_describe())
@router.post(_VERSION_PATH, dependencies=[Depends(name_version)], **_describe())
async def infer(call: Call) -> None:
    """Compute the product of A and B, or those of stacks of matrices."""
    check_model(call)
    with call.parts.infer_statistics.count(call.tenant) as noted:
        await _answer(call, noted)


async def _answer(call: Call, noted: dict[str, float]) -> None:
    parts, tenant, clock = call.parts, call.tenant, time.perf_counter
    began = clock()
    parts.products.check_admission(tenant.name)
    _check_page(call.headers)
    limit_bytes = int(parts.settings.max_matrix_bytes)
    most_bytes = 3 * limit_bytes + MOST_HEAD_BYTES
    body = BodyReader(call, most_bytes=most_bytes, media_types=_MEDIA_TYPES, head="JSON head")
    with open_memory(call) as memory:
        request, operands, out, result = await call.receive_by(
            body, lambda: _receive(call, body, memory, limit_bytes)
        )
        received = clock()
        asked = request.parameters
        message = await compute(
            call, asked, operands, out, memory.extents, priority=asked.priority_of_jobs,
            until=began + asked.timeout / 1e6 if asked.timeout else None,
        )  # fmt: skip
        ended = clock()
        views = await make_views(request, result, message)
        queue_seconds = message["queue_seconds"]
        noted |= {
            "products": message["plan"].get("stack", 1),
            "queue": queue_seconds,
            "compute_input": received - began,
            "compute_infer": max(0.0, ended - received - queue_seconds),
            "compute_output": clock() - ended,
        }
        await send_answer(call, message, views)
        parts.metrics.sent_bytes.inc(len(views[-1]))


async def _receive_head(call: Call, body: BodyReader) -> InferRequest:
    """The request in a body's head. A long head is read in a thread, one at a time.

    Raises:
        RequestValidationError: The head is not JSON, or breaks the schema.
        FieldProblem: A tensor does not have the announced size, or tensors do not fit together.
        BodyLengthWrong: The body is not as long as the head says.
        BodyTooLarge: The head is too large.
    """
    head_bytes = _read_head_length(call.headers.get(HEAD_LENGTH))
    if head_bytes is None:
        why = " of JSON; send tensors as binary data"
        content = await body.read_rest(MOST_HEAD_BYTES, why=why)
    else:
        buffer = bytearray(head_bytes)
        await body.read_into(memoryview(buffer))
        content = bytes(buffer)
    if len(content) > SMALL_BODY_BYTES:
        async with call.parts.thinking:
            request = await run_to_end(read_request, content)
    else:
        request = read_request(content)
    total_bytes = len(content) + request.following_bytes
    body.expect_length(total_bytes, lambda: "head and the tensors that it announces")
    return request


async def _receive(
    call: Call, body: BodyReader, memory: RequestMemory, limit_bytes: int
) -> tuple[InferRequest, list[Operand], Operand, memoryview]:
    """The request, its operands in memory, from the body or from the head, and room for its result.

    Raises:
        BodyLengthWrong: The body is longer or shorter than the head says.
        QuotaReached: The caller may not have as much at once.
        StorageFull: There is no memory for them.
    """
    request = await _receive_head(call, body)
    _check_sizes(request, limit_bytes)
    operands: dict[str, Operand] = {}
    for tensor in request.inputs:
        if tensor.values is None:
            operands[tensor.name] = await memory.receive(tensor, body.read_into)
        else:
            operands[tensor.name], view = await memory.obtain(tensor)
            copy_bytes(view, tensor.values.reshape(-1).view("u1").data)
    await body.finish()
    names = "ABC" if request.parameters.beta != 0 else "AB"
    out, result = await memory.obtain(request.result)
    return request, [operands[name] for name in names], out, result


def _check_page(headers: Headers) -> None:
    """Refuse a call that a browser may have sent for any web page.

    Before a browser sends a body of `_ASKED_TYPES` to another origin, it asks whether it may; other
    types it may send without asking (Fetch, "CORS-safelisted request-header").

    Raises:
        ContentRefused: A web page calls, with a body of another type.
    """
    media_type = read_media_type(headers)
    if "origin" in headers and media_type not in _ASKED_TYPES:
        limit = f"{' or '.join(_ASKED_TYPES)} where a web page calls"
        raise ContentRefused("Content-Type", media_type or None, limit)


def _check_sizes(request: InferRequest, limit_bytes: int) -> None:
    """Refuse a request with a tensor that is too large; names the largest."""
    largest = max((*request.inputs, request.result), key=lambda one: one.data_bytes)
    name = "result size" if largest is request.result else f"size of {largest.name}"
    check_length(largest.data_bytes, limit_bytes, field=name, why=" (max_matrix_bytes)")


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
