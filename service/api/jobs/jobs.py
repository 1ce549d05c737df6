"""Jobs: posted, watched, cancelled, and their products."""

import contextlib
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.admission.body_route import DESCRIBES, BodyRoute
from wavetrim.service.api.admission.idempotency import IdempotencyKey, check_key
from wavetrim.service.api.admission.json_route import JsonRoute
from wavetrim.service.api.header_schemas import (
    IfMatch,
    IfNoneMatch,
    IfRange,
    Range,
    describe_headers,
)
from wavetrim.service.api.jobs.job_schemas import JobPage, JobRequest, JobView, show_job
from wavetrim.service.api.matrices.matrix_body import send_kept
from wavetrim.service.api.openapi import describe_download, list_refusals
from wavetrim.service.api.parts import DispatcherPart, JobsPart, TenantPart, WaitsPart
from wavetrim.service.errors import Draining
from wavetrim.service.jobs.errors import ResultMissing
from wavetrim.service.jobs.job import JobState
from wavetrim.service.threads import run_to_end

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute)

JobId = Annotated[
    str, Path(description="Id of the job.", examples=["0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a1b"])
]

_LOCATION: Final = {"headers": describe_headers("Location")}
_RESULT: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        **describe_download(),
        **list_refusals(404, 409, 412, 416),
    },
}


@router.post(
    "",
    status_code=202,
    responses={
        200: {"model": JobView, "description": "The job that the first POST made.", **_LOCATION},
        202: {"description": "The job is queued.", **_LOCATION},
        **list_refusals(404, 408, 413, 415, 429),
    },
)
async def create_job(
    job_request: JobRequest,
    response: Response,
    dispatcher: DispatcherPart,
    tenant: TenantPart,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Post a product: alpha · A·B + beta · C."""
    job, created = await dispatcher.submit(job_request, check_key(idempotency_key), tenant)
    if not created:
        response.status_code = 200
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return show_job(job)


@router.get("", responses=list_refusals())
def list_jobs(
    jobs: JobsPart,
    tenant: TenantPart,
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="The most jobs to return.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=64, description="next_cursor of the page before.")
    ] = None,
) -> JobPage:
    """List the caller's jobs, newest first; to a caller with the scope admin, everybody's."""
    found, next_cursor = jobs.page(state=state, limit=limit, cursor=cursor, owner=tenant.sees)
    return JobPage(jobs=[show_job(job) for job in found], next_cursor=next_cursor)


@router.get("/{job_id}", responses=list_refusals(404))
async def get_job(
    *,
    job_id: JobId,
    jobs: JobsPart,
    dispatcher: DispatcherPart,
    waits: WaitsPart,
    tenant: TenantPart,
    wait_seconds: Annotated[
        float, Query(ge=0, le=60, description="How long to wait for the job's end, at most.")
    ] = 0.0,
) -> JobView:
    """Look at a job: its state, progress, plan, timings and result."""
    if wait_seconds:
        # A service that stops shows the job as it is.
        with waits.take(tenant.name), contextlib.suppress(Draining):
            waited = dispatcher.wait(job_id, owner=tenant.sees, most_seconds=wait_seconds)
            return show_job(await waited)
    return show_job(await run_to_end(jobs.get, job_id, tenant.sees))


@router.get("/{job_id}/result", **_RESULT)
async def get_job_result(
    job_id: JobId,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    range_: Range = None,
    if_range: IfRange = None,
) -> Response:
    """Send the product as a .npy file, whole or a single range of it."""
    del job_id, if_match, if_none_match, range_, if_range
    raise AssertionError(DESCRIBES)


async def answer_result(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers GET and HEAD /v1/jobs/{job_id}/result."""
    job_id, sees = scope["path_params"]["job_id"], find_tenant(scope).sees
    job = await run_to_end(scope["app"].state.jobs.get, job_id, sees)
    if job.result is None:
        raise ResultMissing(job.id, job.state)
    await send_kept(scope, receive, send, job.result)


@router.delete(
    "/{job_id}",
    status_code=202,
    responses={
        200: {"model": JobView, "description": "The job is cancelled."},
        202: {"description": "The job runs; it is cancelled as soon as the engine lets it go."},
        **list_refusals(404, 409),
    },
)
async def cancel_job(
    job_id: JobId, response: Response, dispatcher: DispatcherPart, tenant: TenantPart
) -> JobView:
    """Cancel a job: a queued one at once, a running one as soon as the engine lets it go."""
    job = await dispatcher.cancel(job_id, tenant.sees)
    if job.state.finished:
        response.status_code = 200
    return show_job(job)


routes: Final = (BodyRoute("/v1/jobs/{job_id}/result", answer_result, methods=["GET"]),)
