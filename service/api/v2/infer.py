"""POST /v2/models/matmul/infer: products by the Open Inference Protocol.

`answer` takes the body's bytes itself; `infer` describes it in the OpenAPI document.
"""

import time
from contextlib import AsyncExitStack
from typing import Any, Final

from fastapi import APIRouter, Depends, Response
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.auth import find_tenant
from wavetrim.service.api.body_route import DESCRIBES, BodyRoute
from wavetrim.service.api.openapi import inline_schema, list_refusals
from wavetrim.service.api.product_answer import Caller
from wavetrim.service.api.v2.answer import make_views, send_answer
from wavetrim.service.api.v2.body import HEAD_LENGTH, MOST_HEAD_BYTES, InferBody
from wavetrim.service.api.v2.compression import choose_coding
from wavetrim.service.api.v2.inference import Inference
from wavetrim.service.api.v2.model import check_model, require_model, require_version
from wavetrim.service.api.v2.schemas import InferAnswer, InferHead
from wavetrim.service.api.v2.statistics import Stopwatch

_PATH: Final = "/v2/models/{model_name}/infer"
_VERSION_PATH: Final = "/v2/models/{model_name}/versions/{version}/infer"

_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}

router = APIRouter(tags=["Open Inference Protocol"])


def _describe() -> dict[str, Any]:
    """What the OpenAPI document says of a route for products."""
    described = "Milliseconds and rows, as of `/v1/matmul`; of a stack, sums."
    text = {"schema": {"type": "string"}}
    answer = {
        "description": "The product: JSON, or a JSON head with binary data after it.",
        "content": {
            "application/json": {"schema": inline_schema(InferAnswer)},
            "application/octet-stream": _BINARY,
        },
        "headers": {
            "Server-Timing": {"description": described, **text},
            "Wavetrim-F": {"description": described, **text},
            "Wavetrim-F-Actual": {"description": described, **text},
            "Wavetrim-Accuracy": {"description": "How exact the sums are.", **text},
            HEAD_LENGTH: {"description": "Bytes of the head before binary data.", **text},
        },
    }
    body = {
        "required": True,
        "description": "A JSON head, and after it the binary data of the inputs that announce it "
        f"(`binary_data_size`), in their order; {HEAD_LENGTH} is the head's length then. In gzip "
        "or deflate, too.",
        "content": {
            "application/json": {"schema": inline_schema(InferHead)},
            "application/octet-stream": _BINARY,
        },
    }
    return {
        "response_class": Response,
        "responses": {200: answer, **list_refusals(*_STATUSES)},
        "openapi_extra": {"requestBody": body},
    }


_STATUSES: Final = (404, 408, 409, 413, 415, 422, 429, 500, 504, 507)


@router.post(_PATH, dependencies=[Depends(require_model)], **_describe())
async def infer() -> Response:
    """Compute the product of A and B, or those of stacks of matrices."""
    raise AssertionError(DESCRIBES)


@router.post(_VERSION_PATH, dependencies=[Depends(require_version)], **_describe())
async def infer_with_version() -> Response:
    """Compute the product of A and B; the only version is 1."""
    raise AssertionError(DESCRIBES)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request for products."""
    state, tenant = scope["app"].state, find_tenant(scope)
    inference: Inference = state.inference
    check_model(**scope["path_params"])
    with inference.statistics.count(tenant) as stopwatch:
        await _answer(scope, receive, send, stopwatch)


async def _answer(scope: Scope, receive: Receive, send: Send, stopwatch: Stopwatch) -> None:
    state, tenant = scope["app"].state, find_tenant(scope)
    inference: Inference = state.inference
    settings, metrics = state.settings, state.metrics
    began = time.perf_counter()
    inference.check_admission()
    idle_seconds = settings.upload_idle_seconds
    body = InferBody(
        scope,
        receive,
        limit_bytes=3 * int(settings.max_matrix_bytes) + MOST_HEAD_BYTES,
        idle_seconds=idle_seconds,
    )
    async with AsyncExitStack() as stack:
        try:
            async with state.bodies.place_for(body.reader.length_bytes):
                request = await body.read_request(inference.long_heads)
                placed = await inference.place(request, tenant, stack, body.read_into)
                await body.finish()
        finally:
            metrics.received_bytes.inc(body.reader.received_bytes)
        stopwatch.compute_input = time.perf_counter() - began
        computed = await inference.compute(placed, Caller(receive).await_leaving, stopwatch)
        ended = time.perf_counter()
        views = await make_views(computed)
        stopwatch.compute_output = time.perf_counter() - ended
        accepted = dict(scope["headers"]).get(b"accept-encoding", b"").decode("latin-1")
        coding = choose_coding(accepted)
        await send_answer(
            scope, receive, send, computed, views, coding=coding, idle_seconds=idle_seconds
        )
        metrics.sent_bytes.inc(len(views[-1]))


routes: Final = tuple(BodyRoute(path, answer, methods=["POST"]) for path in (_PATH, _VERSION_PATH))
