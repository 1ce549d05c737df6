"""POST /v2/models/matmul/infer: products by the Open Inference Protocol."""

import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Depends, Response

from wavetrim.service.api.admission.body_route import BodyRoute
from wavetrim.service.api.admission.call import Call
from wavetrim.service.api.header_schemas import (
    PRODUCT_HEADERS,
    describe_headers,
    describe_request_headers,
)
from wavetrim.service.api.openapi import BINARY, list_refusals, refer
from wavetrim.service.api.products.product_answer import await_leaving, check_options
from wavetrim.service.api.products.request_memory import RequestMemory
from wavetrim.service.api.v2.answer import make_views, send_answer
from wavetrim.service.api.v2.body import HEAD_LENGTH, InferBody
from wavetrim.service.api.v2.model import check_model, require_model, require_version
from wavetrim.service.api.v2.schemas import InferAnswer, InferHead
from wavetrim.service.api.v2.statistics import Stopwatch

_PATH: Final = "/v2/models/{model_name}/infer"
_VERSION_PATH: Final = "/v2/models/{model_name}/versions/{version}/infer"

router = APIRouter(tags=["Open Inference Protocol"], route_class=BodyRoute)


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
    asked = (HEAD_LENGTH, "Content-Encoding", "Accept-Encoding")
    return {
        "response_class": Response,
        "responses": {200: answer, **list_refusals(*_STATUSES)},
        "openapi_extra": {"requestBody": body, "parameters": describe_request_headers(*asked)},
    }


_STATUSES: Final = (404, 408, 409, 413, 415, 422, 429, 500, 504, 507)


@router.post(_PATH, dependencies=[Depends(require_model)], **_describe())
@router.post(_VERSION_PATH, dependencies=[Depends(require_version)], **_describe())
async def infer(call: Call) -> None:
    """Compute the product of A and B, or those of stacks of matrices."""
    check_model(**call.path_params)
    with call.parts.infer_statistics.count(call.tenant) as stopwatch:
        await _answer(call, stopwatch)


async def _answer(call: Call, stopwatch: Stopwatch) -> None:
    parts, tenant, clock = call.parts, call.tenant, time.perf_counter
    began = clock()
    parts.products.check_admission(tenant.name)
    body = InferBody(call, limit_bytes=int(parts.settings.max_matrix_bytes))
    async with AsyncExitStack() as stack:
        try:
            memory = RequestMemory(parts.scratch, stack, partial(parts.in_flight.take, tenant))
            async with parts.bodies.place_for(body.reader.length_bytes, tenant.name):
                request, received = await body.receive(memory, parts.thinking)
        finally:
            parts.metrics.received_bytes.inc(body.reader.received_bytes)
        stopwatch.compute_input = clock() - began
        asked = clock()
        run = received.make_request(
            alpha=request.alpha,
            beta=request.beta,
            options=request.options,
            verify=request.verify,
        )
        check_options(parts.engine, run)
        timeout = request.timeout_seconds
        message = await parts.products.compute(
            run,
            received.rooms,
            partial(await_leaving, call.receive),
            caller=tenant.name,
            until=None if timeout is None else began + timeout,
            priority=request.priority,
        )
        ended = clock()
        stopwatch.products, stopwatch.queue = run.products, message["queue_seconds"]
        stopwatch.compute_infer = max(0.0, ended - asked - stopwatch.queue)
        views = await make_views(request, received.answer, message)
        stopwatch.compute_output = clock() - ended
        await send_answer(call, message, views)
        parts.metrics.sent_bytes.inc(len(views[-1]))
