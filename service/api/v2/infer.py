"""POST /v2/models/matmul/infer: products by the Open Inference Protocol.

`answer` receives the body itself; `infer` describes it in the OpenAPI document.
"""

import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Depends, Response
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.admission.body_route import DESCRIBES, BodyRoute
from wavetrim.service.api.header_schemas import PRODUCT_HEADERS, describe_headers
from wavetrim.service.api.openapi import BINARY, list_refusals, refer
from wavetrim.service.api.products.request_memory import RequestMemory
from wavetrim.service.api.v2.answer import make_views, send_answer
from wavetrim.service.api.v2.body import HEAD_LENGTH, MOST_HEAD_BYTES, InferBody
from wavetrim.service.api.v2.compression import choose_coding
from wavetrim.service.api.v2.inference import compute_products
from wavetrim.service.api.v2.model import check_model, require_model, require_version
from wavetrim.service.api.v2.placement import place_tensors
from wavetrim.service.api.v2.schemas import InferAnswer, InferHead
from wavetrim.service.api.v2.statistics import InferStatistics, Stopwatch
from wavetrim.service.api.wire.inflated_source import CODINGS

_PATH: Final = "/v2/models/{model_name}/infer"
_VERSION_PATH: Final = "/v2/models/{model_name}/versions/{version}/infer"

router = APIRouter(tags=["Open Inference Protocol"])


_TEXT: Final = {"type": "string"}
_HEAD_SCHEMA: Final = {"type": "integer", "minimum": 0, "maximum": MOST_HEAD_BYTES}

_HEADERS: Final = [
    {"name": name, "in": "header", "required": False, "description": meaning, "schema": schema}
    for name, meaning, schema in (
        (HEAD_LENGTH, "Bytes of the JSON head before binary data.", _HEAD_SCHEMA),
        ("Content-Encoding", f"How the body is compressed: {', '.join(CODINGS)}.", _TEXT),
        ("Accept-Encoding", "How the answer may be compressed.", _TEXT),
    )
]
"""Headers of a request for products."""


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
    return {
        "response_class": Response,
        "responses": {200: answer, **list_refusals(*_STATUSES)},
        "openapi_extra": {"requestBody": body, "parameters": _HEADERS},
    }


_STATUSES: Final = (404, 408, 409, 413, 415, 422, 429, 500, 504, 507)


@router.post(_PATH, dependencies=[Depends(require_model)], **_describe())
@router.post(_VERSION_PATH, dependencies=[Depends(require_version)], **_describe())
async def infer() -> Response:
    """Compute the product of A and B, or those of stacks of matrices."""
    raise AssertionError(DESCRIBES)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request for products."""
    check_model(**scope["path_params"])
    statistics: InferStatistics = scope["app"].state.infer_statistics
    with statistics.count(find_tenant(scope)) as stopwatch:
        await _answer(scope, receive, send, stopwatch)


async def _answer(scope: Scope, receive: Receive, send: Send, stopwatch: Stopwatch) -> None:
    state, tenant = scope["app"].state, find_tenant(scope)
    settings, metrics = state.settings, state.metrics
    began = time.perf_counter()
    state.products.check_admission()
    limit_bytes = int(settings.max_matrix_bytes)
    body = InferBody(scope, receive, limit_bytes=3 * limit_bytes + MOST_HEAD_BYTES)
    async with AsyncExitStack() as stack:
        try:
            memory = RequestMemory(state.rooms, stack, partial(state.in_flight.take, tenant))
            async with state.bodies.place_for(body.reader.length_bytes, tenant.name):
                request = await body.read_request(state.thinking)
                placed = await place_tensors(
                    request, memory, body.read_into, limit_bytes=limit_bytes
                )
                await body.finish()
        finally:
            metrics.received_bytes.inc(body.reader.received_bytes)
        stopwatch.compute_input = time.perf_counter() - began
        computed = await compute_products(placed, state.products, state.engine, receive, stopwatch)
        ended = time.perf_counter()
        views = await make_views(computed)
        stopwatch.compute_output = time.perf_counter() - ended
        accepted = dict(scope["headers"]).get(b"accept-encoding", b"").decode("latin-1")
        coding = choose_coding(accepted)
        await send_answer(scope, receive, send, computed, views, coding=coding)
        metrics.sent_bytes.inc(len(views[-1]))


routes: Final = tuple(BodyRoute(path, answer, methods=["POST"]) for path in (_PATH, _VERSION_PATH))
