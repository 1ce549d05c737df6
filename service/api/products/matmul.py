"""A product in one call: .npy files in, one after the other, one out, and nothing is stored.

A file with three dimensions is a stack of matrices, of which each has its product.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field
from starlette.types import Receive

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.service.api.calls import JSON, Call, CallRoute, make_answer
from wavetrim.service.api.checks import NPY_TYPES, check_length, read_media_type
from wavetrim.service.api.fields import read_model
from wavetrim.service.api.openapi import (
    PRODUCT_HEADERS,
    describe_npy_answer,
    describe_npy_body,
    list_refusals,
)
from wavetrim.service.api.products.leased_matmul import (
    LeasedAnswer,
    LeasedProduct,
    describe_leased,
    find_matrices,
)
from wavetrim.service.api.products.leases import check_unix
from wavetrim.service.api.schemas import DtypeName
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.api.wire.sender import choose_media_type, send_views
from wavetrim.service.jobs.operands import check_operands, fold
from wavetrim.service.option_fields import Factor, ProductOptions, QueryRows
from wavetrim.service.storage.matrices.intake import RequestMemory
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES, Layout
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.telemetry.metrics import PARTS

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
        await _answer_leased(call)
        return
    parts = call.parts
    parts.products.check_admission(call.tenant.name)
    limit_bytes = int(parts.settings.max_matrix_bytes)
    most_bytes = (2 + (query.beta != 0)) * (limit_bytes + MAX_HEADER_BYTES)
    body = BodyReader(call, most_bytes=most_bytes)
    with open_memory(call) as memory:
        operands, out, result = await call.receive_by(
            body, lambda: receive_operands(body, query, memory, limit_bytes)
        )
        message = await compute(call, query, operands, out, memory.extents)
        media_type = choose_media_type(call.headers.get("accept")).encode()
        headers = [(b"content-type", media_type), *describe_product(message)]
        await send_views(call, 200, headers, [result])
        parts.metrics.sent_bytes.inc(len(result))


async def _answer_leased(call: Call) -> None:
    """Answers a call whose JSON body names matrices in leases."""
    check_unix(call, otherwise=f"; other callers send .npy files as {NPY_TYPES[-1]}")
    parts, tenant = call.parts, call.tenant
    parts.products.check_admission(tenant.name)
    product = read_model(LeasedProduct, await call.receive_document())
    with ExitStack() as stack:
        operands, out, extents = find_matrices(product, parts.leases, tenant.sees)
        for extent in extents:
            stack.callback(extent.hold("request").release)
        message = await compute(call, product, operands, out, extents)
    response = make_answer(describe_leased(message))
    response.raw_headers += describe_product(message)
    await call.answer(response)


async def receive_operands(
    body: BodyReader, query: MatmulQuery, memory: RequestMemory, limit_bytes: int
) -> tuple[list[Operand], Operand, memoryview]:
    """Receive the operands of a product, and make room for its result.

    Args:
        body: The body; nothing of it has been read.
        query: The request's query.
        memory: The request's memory.
        limit_bytes: The largest .npy file that is received or sent.

    Returns:
        The operands, the result, and the memory of its .npy file, whose header is filled in.

    Raises:
        NpyError: A matrix is not a .npy file that the service accepts.
        BodyLengthWrong: The body is shorter or longer than its headers say.
        FieldProblem: The matrices do not fit together, or one is too large.
        StorageFull: There is no memory for them.
        QuotaReached: The caller may not have as much at once.
    """
    check = partial(check_length, most_bytes=limit_bytes, why=" (max_matrix_bytes)")
    headers: list[Layout] = []
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
            result = _fit(headers, query)
            check(result.data_bytes, field="result size")
        operands.append(await memory.receive(header, body.read_into))
    await body.finish()
    return operands, *await memory.obtain(result, result.format_header())


def _fit(headers: Sequence[Layout], query: MatmulQuery) -> Layout:
    """The result, if the matrices so far fit together."""
    a, b, *rest = headers
    c = rest[0] if rest else None
    beta = query.beta if rest else 0.0
    problem, stack = check_operands(a, b, c, alpha=query.alpha, beta=beta, dtype=query.dtype)
    return Layout(problem.m, problem.n, problem.dtype, stack=stack)


def open_memory(call: Call) -> RequestMemory:
    """Memory for the operands and the result of a call, counted against its caller's quota."""
    parts = call.parts
    take = partial(parts.in_flight.take, call.tenant)
    return RequestMemory(parts.arena, parts.matrices.folder, take)


async def compute(
    call: Call,
    asked: ProductOptions,
    operands: Sequence[Operand],
    out: Operand,
    extents: Sequence[Extent],
    *,
    priority: int = 0,
    until: float | None = None,
) -> Mapping[str, Any]:
    """Compute the product of a call whose body has been received; a caller that leaves stops it.

    Args:
        call: The call.
        asked: How it is computed.
        operands: A, B and, if beta is not 0, C.
        out: The result.
        extents: The memory that they lie in.
        priority: That of the product, as jobs have it.
        until: When it must have been computed, by `time.perf_counter`; None for any time.

    Returns:
        The engine's message of success.

    Raises:
        FieldError: An option cannot be met on this machine.
        JobFailed, Draining, ClientDisconnect: As `Products.compute`.
    """
    a, b, *rest = operands
    c = rest[0] if rest else None
    request = fold(
        RunRequest(
            job="", a=a, b=b, c=c, out=out, alpha=asked.alpha, beta=asked.beta,
            options=asked.options, verify=asked.verify, reports=False,
        )
    )  # fmt: skip
    if request.options is not NO_OPTIONS:
        await call.parts.plans.plan_once(request)
    leaving = partial(_await_leaving, call.receive)
    return await call.parts.products.compute(
        request, extents, leaving, caller=call.tenant.name, priority=priority, until=until
    )


async def _await_leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def describe_product(message: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers that say how the product was computed."""
    plan = message["plan"]
    timings = {**message["timings"], "queue_seconds": message["queue_seconds"]}
    shown = [
        f"{part};dur={seconds * 1e3:.3f}"
        for part in (*PARTS, "queue")
        if (seconds := timings.get(f"{part}_seconds")) is not None
    ]
    headers = [
        (b"server-timing", ", ".join(shown).encode()),
        (b"wavetrim-f", b"%d" % (plan.get("stack", 1) * plan["f"])),
        (b"wavetrim-f-actual", b"%d" % timings["f_actual"]),
    ]
    if plan["accuracy"] is not None:
        headers.append((b"wavetrim-accuracy", plan["accuracy"].encode()))
    return headers
