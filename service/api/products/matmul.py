"""A product in one call: .npy files in, one out, and nothing is stored."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from wavetrim.service.api.admission.body_route import BodyRoute
from wavetrim.service.api.admission.call import Call
from wavetrim.service.api.header_schemas import PRODUCT_HEADERS
from wavetrim.service.api.openapi import describe_npy_answer, describe_npy_body, list_refusals
from wavetrim.service.api.products.leased_matmul import MEDIA_TYPE, answer_leased
from wavetrim.service.api.products.leased_schemas import LeasedAnswer, LeasedProduct
from wavetrim.service.api.products.matmul_body import ProductReceiver
from wavetrim.service.api.products.product_answer import (
    await_leaving,
    check_options,
    describe_product,
)
from wavetrim.service.api.products.request_memory import RequestMemory
from wavetrim.service.api.schemas import MatmulQuery
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.reader import BodyReader, choose_media_type
from wavetrim.service.api.wire.sender import send_views
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES

router = APIRouter(prefix="/v1/matmul", tags=["matmul"], route_class=BodyRoute)


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
        "beta is not 0, a third one, C. A file with three dimensions is a stack of matrices, and "
        "so is then the answer. Or, over the Unix socket, a JSON document that names "
        "matrices in leases. Then the query is ignored, the result is written into its lease, and "
        "the answer is a JSON document with F, seconds and the verification.",
        "Content-Digest",
        document=LeasedProduct,
    ),
)
async def matmul(call: Call, query: Annotated[MatmulQuery, Query()]) -> None:
    """Multiply two matrices, or stacks of them, and send the product; disconnecting cancels it."""
    parts, headers = call.parts, call.headers
    if headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE:
        await answer_leased(call)
        return
    parts.products.check_admission(call.tenant.name)
    limit_bytes = int(parts.settings.max_matrix_bytes)
    body = BodyReader(
        call.scope,
        call.receive,
        limit_bytes=(2 + (query.beta != 0)) * (limit_bytes + MAX_HEADER_BYTES),
        digests=headers.getlist("content-digest") or None,
        idle_seconds=IDLE_SECONDS,
    )
    async with AsyncExitStack() as stack:
        try:
            take = partial(parts.in_flight.take, call.tenant)
            memory = RequestMemory(parts.scratch, stack, take)
            receiver = ProductReceiver(body, query, memory, limit_bytes=limit_bytes)
            async with parts.bodies.place_for(body.length_bytes, call.tenant.name):
                received = await receiver.receive()
        finally:
            parts.metrics.received_bytes.inc(body.received_bytes)
        request = received.make_request(
            alpha=query.alpha, beta=query.beta, options=query.options, verify=query.verify
        )
        check_options(parts.engine, request)
        message = await parts.products.compute(
            request,
            received.rooms,
            partial(await_leaving, call.receive),
            caller=call.tenant.name,
        )
        media_type = choose_media_type(headers.get("accept"))
        await send_views(
            call.scope,
            call.send,
            status=200,
            headers=[(b"content-type", media_type.encode()), *describe_product(message)],
            views=[received.answer],
            idle_seconds=IDLE_SECONDS,
        )
        parts.metrics.sent_bytes.inc(len(received.answer))
