"""A product in one call: two .npy files in, one out, and nothing is kept."""

import asyncio
import logging
import math
from contextlib import AsyncExitStack, suppress
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect

from wavetrim.service.api.job_schemas import JobRequest
from wavetrim.service.api.openapi import describe_npy_answer, describe_npy_body, list_refusals
from wavetrim.service.api.parts import DispatcherPart, MatricesPart, MetricsPart, SettingsPart
from wavetrim.service.api.schemas import ContentDigest, MatmulQuery
from wavetrim.service.api.wire.body import RequestBody, receive_matrix
from wavetrim.service.api.wire.file_response import open_matrix
from wavetrim.service.errors import Draining, JobFailed, MatrixNotFound, ServiceError
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.metrics import PARTS
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import Matrix
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)
router = APIRouter(prefix="/v1/matmul", tags=["matmul"])

_REMOVAL_SECONDS: Final = 15.0
"""How long a job that was given up may take to let go of its operands."""


@router.post(
    "",
    response_class=Response,
    responses={
        200: describe_npy_answer(
            "The product.",
            Server_Timing="map, kernel, transfer, gpu, cpu, total and queue, in milliseconds.",
            Wavetrim_F="Rows of C that the CPU has computed.",
            Wavetrim_Accuracy="How exact the sums of the GPU's kernel are, if one has run.",
        ),
        **list_refusals(400, 408, 409, 413, 415, 422, 429, 500, 503, 504, 507),
    },
    openapi_extra=describe_npy_body(
        "Two .npy files, A and then B, one directly behind the other: "
        "`cat A.npy B.npy | curl --data-binary @- -H 'Content-Type: application/x-npy'`."
    ),
)
async def multiply(
    *,
    request: Request,
    query: Annotated[MatmulQuery, Query()],
    dispatcher: DispatcherPart,
    matrices: MatricesPart,
    settings: SettingsPart,
    metrics: MetricsPart,
    content_digest: ContentDigest = None,
) -> Response:
    """Multiply two matrices and send the product; a caller who leaves cancels the job."""
    if dispatcher.draining:
        raise Draining(max(1, math.ceil(settings.drain_seconds)))
    body = RequestBody(
        request,
        max_matrix_bytes=settings.max_matrix_bytes,
        matrices=2,
        digests=content_digest,
        idle_seconds=settings.upload_idle_seconds,
    )
    async with AsyncExitStack() as stack:
        stack.callback(lambda: metrics.received_bytes.inc(body.received_bytes))
        a, b = await _receive_operands(body, matrices, stack)
        job = await _compute(request, query, dispatcher, a, b)
        assert job.result is not None, "a succeeded job has a result"
        stack.push_async_callback(_remove, matrices, job.result)
        product = await run_to_end(matrices.get, job.result)
        # Opened here, the file is sent though it is removed on the way out.
        return await open_matrix(product, metrics, matrices, headers=_describe(job))


async def _receive_operands(
    body: RequestBody, matrices: MatrixStore, stack: AsyncExitStack
) -> tuple[Matrix, Matrix]:
    """Stores both operands until the stack is closed."""
    first, _ = await body.read_header()
    async with receive_matrix(body, first, matrices, temporary=True) as pending:
        a = await run_to_end(matrices.publish, pending)
    stack.push_async_callback(_remove, matrices, a.id)
    second, _ = await body.read_header()
    total_bytes = first.file_bytes + second.file_bytes
    body.expect_length(total_bytes, f".npy headers ({first}, {second})")
    async with receive_matrix(body, second, matrices, temporary=True) as pending:
        await body.finish(total_bytes)
        b = await run_to_end(matrices.publish, pending)
    stack.push_async_callback(_remove, matrices, b.id)
    return a, b


async def _compute(
    request: Request, query: MatmulQuery, dispatcher: Dispatcher, a: Matrix, b: Matrix
) -> Job:
    """Runs the job to its end, or gives it up when the caller leaves or the service stops."""
    asked = JobRequest(a=a.id, b=b.id, **query.model_dump())
    job, _ = await dispatcher.submit(asked)
    waiting = asyncio.create_task(dispatcher.wait(job.id))
    leaving = asyncio.create_task(_await_disconnect(request))
    finished: Job | None = None
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            finished = waiting.result()
    finally:
        leaving.cancel()
        waiting.cancel()
        if finished is None:
            await _give_up(dispatcher, job.id)
    if finished is None:
        raise ClientDisconnect
    if finished.state is not JobState.SUCCEEDED:
        error = finished.error or {"kind": "cancelled", "message": "the job was cancelled"}
        raise JobFailed(error["kind"], error["message"])
    return finished


async def _await_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _give_up(dispatcher: Dispatcher, job_id: str) -> None:
    """Cancels a job and waits until nothing uses its operands any more."""
    with suppress(TimeoutError, ServiceError):
        await dispatcher.cancel(job_id)
        async with asyncio.timeout(_REMOVAL_SECONDS):
            await dispatcher.wait(job_id)


async def _remove(matrices: MatrixStore, matrix_id: str) -> None:
    """Removes a matrix of this call; what cannot be removed now goes with the next start."""
    try:
        await run_to_end(matrices.delete, matrix_id)
    except MatrixNotFound:
        logger.info("matrix %s was removed by another call", matrix_id)
    except (ServiceError, SQLAlchemyError, OSError):
        logger.exception("matrix %s stays until the next start", matrix_id)


def _describe(job: Job) -> dict[str, str]:
    """The headers that say how the product was computed."""
    timings = {part: (job.timings or {}).get(f"{part}_seconds") for part in PARTS}
    timings["queue"] = (job.started_at or job.created_at) - job.created_at
    shown = [f"{part};dur={s * 1e3:.3f}" for part, s in timings.items() if s is not None]
    plan = job.plan or {}
    headers = {"Server-Timing": ", ".join(shown), "Wavetrim-F": str(plan.get("f"))}
    if (f_actual := (job.timings or {}).get("f_actual")) is not None:
        headers["Wavetrim-F-Actual"] = f"{f_actual:.0f}"
    if (accuracy := plan.get("accuracy")) is not None:
        headers["Wavetrim-Accuracy"] = accuracy
    return headers
