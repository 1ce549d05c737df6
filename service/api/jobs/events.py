"""Changes of jobs as server-sent events: of one job until it ends, or of all jobs of the caller.

Events come from memory (`jobs/news.py`): a stream holds no connection to the database and no
thread. It ends with the job, when the service stops, or after some minutes, so that a caller whose
connection is dead holds no place; a browser's EventSource then reconnects by itself. The caller's
key or token is checked before each message, and a stream ends when it is no longer good.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from fastapi import APIRouter, Response
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.admission.auth import authenticate, find_tenant
from wavetrim.service.api.admission.body_route import DESCRIBES, BodyRoute
from wavetrim.service.api.jobs.job_schemas import show_job
from wavetrim.service.api.jobs.jobs import JobId
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.wire.sender import send_chunks
from wavetrim.service.errors import IssuerAway, ScopeMissing, Unauthorized
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.news import Listener
from wavetrim.service.threads import run_to_end

IsAllowed = Callable[[], Awaitable[bool]]
"""Whether the caller may still hear of these jobs."""

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

STREAM_SECONDS: Final = 300.0
"""Longest stream; chosen."""

_BEAT_SECONDS: Final = 15.0
"""Longest silence before a comment is sent, and so the longest use of a key that was revoked;
chosen, so that proxies keep the connection open."""

_PAUSE_SECONDS: Final = 0.1
"""Least time between two messages; chosen, as a person sees no more."""

_IDLE_SECONDS: Final = 30.0
"""How long a caller may receive nothing before it is given up; chosen."""

_LAST: Final = "end"
"""The id of a job's last event."""

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx passes each message on as it comes
]

_STREAM: Final = (
    "An event `job` for each change, its data a job as `GET /v1/jobs/{job_id}` shows it."
)


_JOB: Final = {
    "type": "object",
    "properties": {
        "event": {"const": "job"},
        "id": {"const": _LAST},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/JobView"},
        },
    },
    "required": ["event", "data"],
}
_MISSED: Final = {
    "type": "object",
    "properties": {"event": {"const": "missed"}, "data": {"const": "{}"}},
    "required": ["event", "data"],
}


def _describe(description: str, event: dict[str, Any]) -> dict[str, Any]:
    """A stream in an OpenAPI 3.2 document, with the schema of its events."""
    return {"description": description, "content": {"text/event-stream": {"itemSchema": event}}}


@router.get(
    "/events",
    response_class=Response,
    responses={
        200: _describe(f"{_STREAM} `missed`: list the jobs anew.", {"anyOf": [_JOB, _MISSED]}),
        **list_refusals(),
    },
)
async def follow_jobs() -> Response:
    """Follow the caller's jobs as they change; with the scope admin, everybody's."""
    raise AssertionError(DESCRIBES)


@router.get(
    "/{job_id}/events",
    response_class=Response,
    responses={
        200: _describe(f"{_STREAM} The first comes at once, the last has the id `{_LAST}`.", _JOB),
        204: {"description": "Last-Event-ID says that the caller has had the last one."},
        **list_refusals(404),
    },
)
async def follow_job(job_id: JobId) -> Response:
    """Follow a job until it has ended."""
    del job_id
    raise AssertionError(DESCRIBES)


async def answer_job_events(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers GET and HEAD /v1/jobs/{job_id}/events."""
    state, job_id = scope["app"].state, scope["path_params"]["job_id"]
    tenant = find_tenant(scope)
    sees = tenant.sees
    with (
        state.streams.take(tenant.name),
        state.news.listen(job_id=job_id, owner=sees) as listener,
    ):
        job = await run_to_end(state.jobs.get, job_id, sees)
        if job.state.finished and Headers(scope=scope).get("last-event-id") == _LAST:
            await Response(status_code=204)(scope, receive, send)
            return
        await _send(scope, receive, send, _tell(listener, _make_check(scope), job))


async def answer_events(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers GET and HEAD /v1/jobs/events."""
    state, tenant = scope["app"].state, find_tenant(scope)
    with state.streams.take(tenant.name), state.news.listen(owner=tenant.sees) as listener:
        await _send(scope, receive, send, _tell(listener, _make_check(scope)))


async def _send(scope: Scope, receive: Receive, send: Send, events: AsyncGenerator[bytes]) -> None:
    if scope["method"] == "HEAD":
        await events.aclose()  # and no Content-Length, as GET has none (RFC 9110, section 8.6)
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b""})
        return
    await send_chunks(
        scope, receive, send, status=200, headers=_HEADERS, chunks=events,
        total_bytes=None, idle_seconds=_IDLE_SECONDS,
    )  # fmt: skip


def _make_check(scope: Scope) -> IsAllowed:
    """A check whether the call's key or token is still good, and sees as much as when it began."""
    headers, sees = Headers(scope=scope), find_tenant(scope).sees

    async def is_allowed() -> bool:
        try:
            return (await authenticate(headers, scope["app"].state, "read")).sees == sees
        except (Unauthorized, ScopeMissing, IssuerAway):
            return False

    return is_allowed


async def _tell(
    listener: Listener, is_allowed: IsAllowed, job: Job | None = None
) -> AsyncGenerator[bytes]:
    """The events of a job until it ends, or of all jobs, with comments in between."""
    clock = asyncio.get_running_loop().time
    until = clock() + STREAM_SECONDS
    yield b": news of jobs\n\n" if job is None else _write(job)
    while (left_seconds := until - clock()) > 0 and not (job and job.state.finished):
        changed = await listener.wait(min(_BEAT_SECONDS, left_seconds))
        if not await is_allowed():
            return
        if listener.missed:
            listener.missed = False
            yield b"event: missed\ndata: {}\n\n"
        yield b"".join(map(_write, changed)) or b":\n\n"
        if listener.ended:
            return
        if job is not None and changed:
            job = changed[-1]
        await asyncio.sleep(_PAUSE_SECONDS)


def _write(job: Job) -> bytes:
    last = f"id: {_LAST}\n" if job.state.finished else ""
    return f"event: job\n{last}data: {show_job(job).model_dump_json()}\n\n".encode()


routes: Final = (
    BodyRoute("/v1/jobs/events", answer_events, methods=["GET"]),
    BodyRoute("/v1/jobs/{job_id}/events", answer_job_events, methods=["GET"]),
)
