"""Changes of jobs as server-sent events: of one job until it ends, or of all jobs of the caller.

Events come from memory (`jobs/news.py`): a stream holds no connection to the database and no
thread. It ends with the job, when the service stops, or after some minutes, so that a caller whose
connection is dead holds no place; a browser's EventSource then reconnects by itself. When a job
should end changes as others begin, too: so jobs that wait are looked at now and then. The caller's
key or token is checked before each message, and a stream ends when it is no longer good.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from fastapi import APIRouter, Response

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.checks import find_tenant
from wavetrim.service.api.jobs.job_schemas import show_job
from wavetrim.service.api.jobs.jobs import JobId
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.wire.sender import send_chunks
from wavetrim.service.clock import read_clock
from wavetrim.service.errors import IssuerAway, Unauthorized
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.ends import Expected
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.news import Listener

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=CallRoute)

STREAM_SECONDS: Final = 300.0
"""Longest stream; chosen."""

_BEAT_SECONDS: Final = 15.0
"""Longest silence before a comment is sent, and so the longest use of a key that was revoked;
chosen, so that proxies keep the connection open."""

_PAUSE_SECONDS: Final = 0.1
"""Least time between two messages; chosen, as a person sees no more."""

_LOOK_SECONDS: Final = 1.0
"""Time between two looks at when jobs should end; chosen."""

_MOST_MOVED: Final = 16
"""Jobs of a caller that are looked at; chosen, to bound what all followers cost."""

_MOVED_SHARE: Final = 0.2
"""A job's expected end is sent again once it has moved by this share of the time left; chosen."""

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
async def follow_jobs(call: Call) -> None:
    """Follow the caller's jobs as they change; with the scope admin, everybody's."""
    parts, tenant = call.parts, call.tenant
    with parts.streams.take(tenant.name), parts.news.listen(owner=tenant.sees) as listener:
        await _send(call, _tell(listener, call, _Story(parts.dispatcher, tenant.sees, None)))


@router.get(
    "/{job_id}/events",
    response_class=Response,
    responses={
        200: _describe(f"{_STREAM} The first comes at once, the last has the id `{_LAST}`.", _JOB),
        204: {"description": "Last-Event-ID says that the caller has had the last one."},
        **list_refusals(404),
    },
)
async def follow_job(call: Call, job_id: JobId) -> None:
    """Follow a job until it has ended."""
    parts, tenant = call.parts, call.tenant
    with (
        parts.streams.take(tenant.name),
        parts.news.listen(job_id=job_id, owner=tenant.sees) as listener,
    ):
        job = await parts.dispatcher.get(job_id, tenant.sees)
        if job.state.finished and call.headers.get("last-event-id") == _LAST:
            await call.answer(Response(status_code=204))
            return
        await _send(call, _tell(listener, call, _Story(parts.dispatcher, tenant.sees, job)))


async def _send(call: Call, events: AsyncGenerator[bytes]) -> None:
    if call.method == "HEAD":
        await events.aclose()  # and no Content-Length, as GET has none (RFC 9110, section 8.6)
        await call.send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await call.send({"type": "http.response.body", "body": b""})
        return
    await send_chunks(call, 200, _HEADERS, events)


async def _is_allowed(call: Call) -> bool:
    """Whether the call's key or token is still good, and sees as much as when it began."""
    try:
        tenant = await find_tenant(call)
    except (Unauthorized, IssuerAway):
        return False
    return bool({"read", "admin"} & tenant.scopes) and tenant.sees == call.tenant.sees


class _Story:
    """What a follower has been sent.

    Args:
        dispatcher: Has the jobs that have not ended.
        owner: Whose jobs are followed; None for everybody's.
        job: The only job that is followed; None for all.
    """

    def __init__(self, dispatcher: Dispatcher, owner: str | None, job: Job | None) -> None:
        self._dispatcher, self._owner, self.job = dispatcher, owner, job
        self._told: dict[str, Expected] = {}

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to tell."""
        return self.job is not None and self.job.state.finished

    def write(self, job: Job) -> bytes:
        """The event of a job."""
        expected = self._dispatcher.ends.tell(job)
        if expected is None:
            self._told.pop(job.id, None)
        else:
            self._told[job.id] = expected
        if self.job is not None:
            self.job = job
        last = f"id: {_LAST}\n" if job.state.finished else ""
        data = show_job(job, expected).model_dump_json()
        return f"event: job\n{last}data: {data}\n\n".encode()

    def list_moved(self, changed: Sequence[Job]) -> list[Job]:
        """Jobs, without those that changed, whose expected begin or end is not what was sent."""
        if self.job is None:
            looked = self._dispatcher.live.list_next(self._owner, _MOST_MOVED)
        else:
            live = self._dispatcher.live.find(self.job.id)
            looked = [] if live is None else [live.job]
        known = {job.id for job in changed}
        return [job for job in looked if job.id not in known and self._has_moved(job)]

    def _has_moved(self, job: Job) -> bool:
        told, expected = self._told.get(job.id), self._dispatcher.ends.tell(job)
        if told is None or expected is None:
            return expected is not told
        moved = abs(expected.ends.at - told.ends.at)
        left = max(0.0, told.ends.at - read_clock())
        return expected.position != told.position or moved > max(0.1, _MOVED_SHARE * left)


async def _tell(listener: Listener, call: Call, story: _Story) -> AsyncGenerator[bytes]:
    """The events of a job until it ends, or of all jobs, with comments in between."""
    clock = asyncio.get_running_loop().time
    looked = spoke = clock()
    until = looked + STREAM_SECONDS
    yield b": news of jobs\n\n" if story.job is None else story.write(story.job)
    while (left_seconds := until - clock()) > 0 and not story.has_ended:
        next_look = looked + _LOOK_SECONDS
        changed = await listener.wait(max(0.0, min(next_look - clock(), left_seconds)))
        if clock() >= next_look:
            changed, looked = (*changed, *story.list_moved(changed)), clock()
        if not (changed or listener.missed or listener.ended or clock() - spoke > _BEAT_SECONDS):
            continue
        spoke = clock()
        if not await _is_allowed(call):
            return
        if listener.missed:
            listener.missed = False
            yield b"event: missed\ndata: {}\n\n"
        yield b"".join(map(story.write, changed)) or b":\n\n"
        if listener.ended:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
