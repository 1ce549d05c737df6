"""Jobs: posted, watched, cancelled, and their products."""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field, TypeAdapter

from wavetrim.service.api.calls import JSON, Call, CallRoute, make_answer
from wavetrim.service.api.checks import check_idempotency
from wavetrim.service.api.fields import check_fields, read_json, read_model
from wavetrim.service.api.jobs.job_schemas import (
    CancelledView,
    JobChange,
    JobPage,
    JobView,
    show_job,
)
from wavetrim.service.api.matrices.download import send_matrix
from wavetrim.service.api.openapi import (
    describe_download,
    describe_headers,
    describe_json_body,
    describe_request_headers,
    list_refusals,
    refer,
)
from wavetrim.service.errors import Draining
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import MOST_LABELS, Job, JobRequest, JobState, Label
from wavetrim.service.threads import run_to_end

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=CallRoute)

JobId = Annotated[
    str, Path(description="Id of the job.", examples=["0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a1b"])
]

MOST_LISTED: Final = 1000
"""Jobs in one POST; chosen: others are served between two of them."""

_LIST_TIMES: Final = 32
"""A list may have this many times the marks of JSON of one job; chosen: a thousand jobs with all
options fit."""

_THREAD_BYTES: Final = 2**16
"""Larger bodies are read in a thread, as that takes up to 50 ms; others are served meanwhile."""

MOST_LIST_BYTES: Final = 2**19
"""The largest body of a POST of jobs; chosen: a job of a list has some hundred bytes."""

_LIST: Final = TypeAdapter[list[JobRequest]](
    Annotated[list[JobRequest], Field(min_length=1, max_length=MOST_LISTED)]
)


class JobQuery(BaseModel):
    """The query of a look at a job."""

    wait_seconds: float = Field(
        0.0, ge=0, le=60, description="How long to wait for the job's end, at most."
    )


_LOCATION: Final = {"headers": describe_headers("Location")}

_JOB_SCHEMA: Final = refer(JobRequest)["schema"]
_LIST_SCHEMA: Final = {
    "type": "array", "items": _JOB_SCHEMA, "minItems": 1, "maxItems": MOST_LISTED,
    "description": "Products, each of them a job.",
}  # fmt: skip


@router.post(
    "",
    status_code=202,
    response_model=JobView | list[JobView],
    responses={
        200: {
            "model": JobView | list[JobView],
            "description": "The jobs that the first POST made.",
            **_LOCATION,
        },
        202: {"description": "The job is queued, or all of a list are.", **_LOCATION},
        **list_refusals(404, 408, 409, 413, 415, 429),
    },
    openapi_extra={
        "parameters": describe_request_headers("Idempotency-Key"),
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": {"anyOf": [_JOB_SCHEMA, _LIST_SCHEMA]}}},
        },
    },
)
async def create_job(call: Call) -> Response:
    """Post a product: alpha · A·B + beta · C. Or a list of products: all are queued, or none."""
    content = await call.receive_document(most_bytes=MOST_LIST_BYTES)
    key = check_idempotency(call.headers.get("idempotency-key"))
    if len(content) > _THREAD_BYTES:
        requests, is_list = await run_to_end(read_requests, content)
    else:
        requests, is_list = read_requests(content)
    jobs, created = await call.parts.dispatcher.submit_all(requests, key, call.tenant)
    shown, status = [_show(call, job) for job in jobs], 202 if created else 200
    if is_list:
        return make_answer(shown, status)
    return make_answer(shown[0], status, {"Location": f"/v1/jobs/{jobs[0].id}"})


def read_requests(content: bytes) -> tuple[Sequence[JobRequest], bool]:
    """The products that a body asks for, and whether it is a list.

    Raises:
        RequestValidationError: It is not JSON, or a field is not valid.
        FieldProblem: As `read_json`.
    """
    document = read_json(content, times=_LIST_TIMES) if content else None
    if isinstance(document, list):
        return check_fields(_LIST.validate_python, document, "body"), True
    return [check_fields(JobRequest.model_validate, document, "body")], False


class JobListQuery(BaseModel):
    """Which jobs are listed."""

    state: JobState | None = Field(None, description="Only jobs in this state.")
    label: list[Label] = Field(
        [], max_length=MOST_LABELS, description="Only jobs that have all of these."
    )
    limit: int = Field(50, ge=1, le=200, description="The most jobs to return.")
    cursor: str | None = Field(None, max_length=64, description="next_cursor of the page before.")


@router.get("", responses=list_refusals())
async def list_jobs(call: Call, query: Annotated[JobListQuery, Query()]) -> JobPage:
    """List the caller's jobs, newest first; to a caller with the scope admin, everybody's."""
    found, next_cursor = await run_to_end(
        call.parts.jobs.page,
        state=query.state, labels=query.label, limit=query.limit, cursor=query.cursor,
        owner=call.tenant.sees,
    )  # fmt: skip
    return JobPage(jobs=[_show(call, job) for job in found], next_cursor=next_cursor)


class CancelQuery(BaseModel):
    """Which jobs are cancelled."""

    label: list[Label] = Field(
        min_length=1, max_length=MOST_LABELS, description="Jobs that have all of these."
    )


@router.delete("", responses=list_refusals())
async def cancel_jobs(call: Call, query: Annotated[CancelQuery, Query()]) -> CancelledView:
    """Cancel the caller's jobs with some labels that have not ended, and what waits for them."""
    cancelled = await call.parts.dispatcher.cancel_labelled(query.label, call.tenant.name)
    return CancelledView(cancelled=cancelled)


@router.get("/{job_id}", responses=list_refusals(404))
async def get_job(call: Call, job_id: JobId, query: Annotated[JobQuery, Query()]) -> JobView:
    """Look at a job: its state, progress, plan, timings and result."""
    parts, tenant = call.parts, call.tenant
    job: Job | None = None
    if query.wait_seconds:
        # A service that stops shows the job as it is.
        with parts.waits.take(tenant.name), contextlib.suppress(Draining):
            job = await parts.dispatcher.wait(
                job_id, owner=tenant.sees, most_seconds=query.wait_seconds
            )
    if job is None:
        job = await parts.dispatcher.get(job_id, tenant.sees)
    return _show(call, job)


@router.get("/{job_id}/result", **describe_download())
async def get_job_result(call: Call, job_id: JobId) -> None:
    """Send the product as a .npy file, whole or a single range of it."""
    job = await call.parts.dispatcher.get(job_id, call.tenant.sees)
    if job.result is None:
        raise JobStateConflict(job.id, job.state, "succeeded to have a result")
    await send_matrix(call, job.result)


@router.delete(
    "/{job_id}",
    status_code=202,
    response_model=JobView,
    responses={
        200: {"model": JobView, "description": "The job is cancelled."},
        202: {"description": "The job runs; it is cancelled as soon as the engine lets it go."},
        **list_refusals(404, 409),
    },
)
async def cancel_job(call: Call, job_id: JobId) -> Response:
    """Cancel a job: a queued one at once, a running one as soon as the engine lets it go."""
    job = await call.parts.dispatcher.cancel(job_id, call.tenant.sees)
    return make_answer(_show(call, job), 200 if job.state.finished else 202)


@router.patch(
    "/{job_id}",
    responses=list_refusals(404, 408, 409, 413, 415),
    openapi_extra=describe_json_body(JobChange),
)
async def change_job(call: Call, job_id: JobId) -> JobView:
    """Change the priority of a job that is queued; it counts at once."""
    change = read_model(JobChange, await call.receive_document())
    sees = call.tenant.sees
    job = await call.parts.dispatcher.change_priority(job_id, change.priority, sees)
    return _show(call, job)


def _show(call: Call, job: Job) -> JobView:
    return show_job(job, call.parts.dispatcher.ends.tell(job))
