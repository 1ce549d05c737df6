"""A product in one call: .npy files in, one after the other, one out, and nothing is stored.

A file with three dimensions is a stack of matrices, of which each has its product.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.api.calls import JSON, Call, CallRoute
from wavetrim.service.api.checks import check_length, read_media_type
from wavetrim.service.api.openapi import (
    PRODUCT_HEADERS,
    describe_npy_answer,
    describe_npy_body,
    list_refusals,
)
from wavetrim.service.api.products.leased_matmul import (
    LeasedAnswer,
    LeasedProduct,
    answer_leased,
)
from wavetrim.service.api.products.product import (
    compute,
    describe_operand,
    describe_product,
    open_memory,
)
from wavetrim.service.api.schemas import DtypeName
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.api.wire.sender import choose_media_type, send_views
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.option_fields import Factor, ProductOptions, QueryRows
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES, NpyHeader, format_header
from wavetrim.service.storage.memory.request_memory import Piece, RequestMemory

NAMES: Final = (
    "first matrix, A",
    "second matrix, B, after the first one in the same body",
    "third matrix, C, after the second one in the same body (beta is not 0)",
)
"""Names of the matrices of a body in a refusal."""


class MatmulQuery(ProductOptions):
    """How a product in one call is computed: alpha · A·B + beta · C."""

    model_config = ConfigDict(frozen=True)

    f: QueryRows = "auto"
    beta: Factor = Field(
        0.0, description="Factor of C, the third .npy file of the body; at 0 there is no third one."
    )
    dtype: DtypeName | None = Field(
        None,
        description="Element type of the result, to which operands are converted first. Without "
        "it, that of the operands.",
    )


router = APIRouter(prefix="/v1/matmul", tags=["matmul"], route_class=CallRoute)


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
    if read_media_type(call.headers) == JSON:
        await answer_leased(call)
        return
    parts = call.parts
    parts.products.check_admission(call.tenant.name)
    limit_bytes = int(parts.settings.max_matrix_bytes)
    body = BodyReader(call)
    body.check_length((2 + (query.beta != 0)) * (limit_bytes + MAX_HEADER_BYTES))
    with open_memory(call) as memory:
        operands, out, result = await call.receive_by(
            body, lambda: receive_operands(body, query, memory, limit_bytes)
        )
        message = await compute(call, query, operands, out, memory.extents)
        media_type = choose_media_type(call.headers.get("accept")).encode()
        headers = [(b"content-type", media_type), *describe_product(message)]
        await send_views(call.scope, call.send, status=200, headers=headers, views=[result.whole])
        parts.metrics.sent_bytes.inc(len(result.whole))


async def receive_operands(
    body: BodyReader, query: MatmulQuery, memory: RequestMemory, limit_bytes: int
) -> tuple[list[Operand], Operand, Piece]:
    """Receive the operands of a product, and make room for its result.

    Args:
        body: The body; nothing of it has been read.
        query: The request's query.
        memory: The request's memory.
        limit_bytes: The largest .npy file that is received or sent.

    Returns:
        The operands, and the result with its memory, whose header is filled in.

    Raises:
        NpyError: A matrix is not a .npy file that the service accepts.
        BodyLengthWrong: The body is shorter or longer than its headers say.
        FieldProblem: The matrices do not fit together, or one is too large.
        StorageFull: There is no memory for them.
        QuotaReached: The caller may not have as much at once.
    """
    check = partial(check_length, most_bytes=limit_bytes, why=" (max_matrix_bytes)")
    headers: list[NpyHeader] = []
    operands: list[Operand] = []
    names = NAMES if query.beta != 0 else NAMES[:2]
    for name in names:
        header = await body.read_header(name)
        check(header.file_bytes, field="matrix size")
        headers.append(header)
        if len(headers) == len(names):
            total_bytes = sum(one.file_bytes for one in headers)
            body.expect_length(
                total_bytes, lambda: f".npy headers ({', '.join(map(str, headers))})"
            )
        if len(headers) > 1:
            shape, head = _fit(headers, query)
            check(shape.data_bytes, field="result size")
        piece = await memory.receive(header.data_bytes, body.read_into)
        operands.append(describe_operand(piece, header, fortran_order=header.fortran_order))
    await body.finish()
    result = await memory.obtain(shape.data_bytes, head=head)
    return operands, describe_operand(result, shape), result


def _fit(headers: Sequence[NpyHeader], query: MatmulQuery) -> tuple[NpyHeader, bytes]:
    """The header of the result, and its bytes, if the matrices so far fit together."""
    a, b, *rest = headers
    c = rest[0] if rest else None
    beta = query.beta if rest else 0.0
    problem, stack = check_operands(a, b, c, alpha=query.alpha, beta=beta, dtype=query.dtype)
    return _make_header(problem.m, problem.n, problem.dtype, stack)


@lru_cache(maxsize=1024)
def _make_header(rows: int, columns: int, dtype: str, stack: int | None) -> tuple[NpyHeader, bytes]:
    head = format_header(rows, columns, dtype, stack=stack)
    return NpyHeader(rows, columns, dtype, False, len(head), stack), head
