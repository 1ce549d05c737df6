"""A product in one call: .npy files in, one out, and nothing is stored.

`answer` receives the body itself; `matmul` describes it in the OpenAPI document.
"""

from contextlib import AsyncExitStack
from functools import lru_cache, partial
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.admission.body_route import DESCRIBES, BodyRoute, read_query
from wavetrim.service.api.header_schemas import PRODUCT_HEADERS
from wavetrim.service.api.openapi import describe_npy_answer, describe_npy_body, list_refusals
from wavetrim.service.api.products.leased_matmul import MEDIA_TYPE, answer_leased
from wavetrim.service.api.products.leased_schemas import LeasedAnswer, LeasedProduct
from wavetrim.service.api.products.matmul_body import ProductReceiver, Received
from wavetrim.service.api.products.product_answer import (
    await_leaving,
    check_options,
    describe_product,
)
from wavetrim.service.api.products.request_memory import RequestMemory
from wavetrim.service.api.schemas import ContentDigest, MatmulQuery
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.media_types import choose_media_type
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.api.wire.sender import send_views
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES

router = APIRouter(prefix="/v1/matmul", tags=["matmul"])


@router.post(
    "",
    response_class=Response,
    responses={
        200: describe_npy_answer(
            "The product; or, if it was written into a lease, how it was computed.",
            *PRODUCT_HEADERS,
            document=LeasedAnswer,
        ),
        **list_refusals(404, 408, 409, 413, 415, 422, 429, 500, 504, 507),
    },
    openapi_extra=describe_npy_body(
        "Two .npy files, A and then B, without anything in between: "
        "`cat A.npy B.npy | curl --data-binary @- -H 'Content-Type: application/x-npy'`. If "
        "beta is not 0, a third one, C. Or, over the Unix socket, a JSON document that names "
        "matrices in leases. Then the query is ignored, the result is written into its lease, and "
        "the answer is a JSON document with F, seconds and the verification.",
        LeasedProduct,
    ),
)
async def matmul(
    _query: Annotated[MatmulQuery, Query()], _content_digest: ContentDigest = None
) -> Response:
    """Multiply two matrices and send the product; disconnecting cancels it."""
    raise AssertionError(DESCRIBES)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers POST /v1/matmul."""
    state, tenant = scope["app"].state, find_tenant(scope)
    settings, metrics = state.settings, state.metrics
    headers = Headers(scope=scope)
    media_type = choose_media_type(headers.get("accept"))
    if headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE:
        await answer_leased(scope, receive, send)
        return
    query, options = read_plan_options(scope["query_string"])
    state.products.check_admission()
    limit_bytes = int(settings.max_matrix_bytes)
    body = BodyReader(
        scope,
        receive,
        limit_bytes=(2 + (query.beta != 0)) * (limit_bytes + MAX_HEADER_BYTES),
        digests=headers.getlist("content-digest") or None,
        idle_seconds=IDLE_SECONDS,
    )
    async with AsyncExitStack() as stack:
        try:
            take = partial(state.in_flight.take, tenant)
            memory = RequestMemory(state.rooms, stack, take)
            receiver = ProductReceiver(body, query, memory, limit_bytes=limit_bytes)
            async with state.bodies.place_for(body.length_bytes, tenant.name):
                received = await receiver.receive()
        finally:
            metrics.received_bytes.inc(body.received_bytes)
        request = _make_request(received, query, options)
        check_options(state.engine, request)
        message = await state.products.compute(
            request, received.rooms, partial(await_leaving, receive)
        )
        await send_views(
            scope,
            send,
            status=200,
            headers=[(b"content-type", media_type.encode()), *describe_product(message)],
            views=[received.answer],
            idle_seconds=IDLE_SECONDS,
        )
        metrics.sent_bytes.inc(len(received.answer))


routes: Final = (BodyRoute("/v1/matmul", answer, methods=["POST"], query=MatmulQuery),)


@lru_cache(maxsize=256)
def read_plan_options(query_string: bytes) -> tuple[MatmulQuery, PlanOptions]:
    """The fields of a query, and its options for the planner.

    Raises:
        RequestValidationError: A field is not valid.
    """
    query = read_query(MatmulQuery, query_string)
    return query, query.options


def _make_request(received: Received, query: MatmulQuery, options: PlanOptions) -> RunRequest:
    a, b, *rest = received.operands
    return RunRequest(
        job="",
        a=a,
        b=b,
        c=rest[0] if rest else None,
        out=received.out,
        alpha=query.alpha,
        beta=query.beta,
        options=options,
        verify=query.verify,
        reports=False,
    )
