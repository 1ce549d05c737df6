"""One row of the jobs table: made of a request, read as a job, and changed.

Each change names in its WHERE the states it may start from. Of two changes that both end a job the
second one so changes nothing, and is told so.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Update,
    and_,
    bindparam,
    not_,
    or_,
    update,
)

from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.job import PROMISE, UNFINISHED, Job, JobState, Shape
from wavetrim.service.storage.database.tables import jobs

_OPEN: Final = NO_OPTIONS.as_dict()

_COLUMNS: Final = tuple(column.name for column in jobs.c if column.name != "sequence")

_WRITTEN: Final = (
    "state", "progress", "attempts", "started_at", "finished_at", "plan", "timings",
    "verification", "error", "result",
)  # fmt: skip


def make_job(
    request: Mapping[str, Any],
    *,
    shape: Shape | None = None,
    owner: str = "",
    trace: str | None = None,
    idempotency_key: str | None = None,
) -> Job:
    """A new job, which has no row yet.

    Args:
        request: The request, ready for JSON; `a`, `b` and `c` are ids of matrices, or of jobs as
            {"job": id}.
        shape: That of its result.
        owner: Name of the tenant to whom it belongs.
        trace: The `traceparent` of the request.
        idempotency_key: Its key, as it is stored.
    """
    a, b, c = (_name_operand(request.get(name)) for name in ("a", "b", "c"))
    assert a is not None
    assert b is not None
    return Job(
        id=uuid.uuid4().hex,
        priority=request["priority"],
        request=dict(request),
        a=a,
        b=b,
        c=c,
        shape=shape,
        idempotency_key=idempotency_key,
        created_at=read_clock(),
        owner=owner,
        trace=trace,
    )


def _name_operand(asked: str | Mapping[str, str] | None) -> str | None:
    """An operand as its column has it: the id of a matrix, or the promise of a job."""
    return asked if asked is None or isinstance(asked, str) else PROMISE + asked["job"]


def make_row(job: Job) -> dict[str, Any]:
    """The row of a new job."""
    return {name: getattr(job, name) for name in _COLUMNS} | {"owner": job.owner or None}


def read_job(row: Row[Any]) -> Job:
    """The job of a row of the jobs table.

    Options that a stored request lacks, because an earlier version did not have them, are left
    open, as if it were posted now.
    """
    columns = dict(row._mapping)
    del columns["sequence"]
    columns["owner"] = columns["owner"] or ""
    columns["state"] = JobState(columns["state"])
    columns["request"] = _OPEN | columns["request"]
    if columns["shape"] is not None:
        columns["shape"] = tuple(columns["shape"])
    return Job(**columns)


def change_row(
    connection: Connection,
    job_id: str,
    changes: Mapping[str, Any],
    states: tuple[JobState, ...] = UNFINISHED,
) -> Job | None:
    """Change a job if it is in one of some states; None if not."""
    change = _build_update(tuple(changes), states).returning(jobs)
    row = connection.execute(change, _name_values(job_id, changes)).one_or_none()
    return None if row is None else read_job(row)


def write_all(connection: Connection, changed: Sequence[Job]) -> bool:
    """Write jobs, without reading their rows; returns whether none had ended before."""
    change = _build_update(_WRITTEN, UNFINISHED)
    given = [_name_values(job.id, describe_job(job)) for job in changed]
    return connection.execute(change, given).rowcount == len(given)


def describe_job(job: Job) -> dict[str, Any]:
    """The columns that the run of a job and its end change."""
    return {name: getattr(job, name) for name in _WRITTEN}


def _name_values(job_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"job": job_id, **{f"new_{name}": value for name, value in values.items()}}


@lru_cache(maxsize=64)
def _build_update(names: tuple[str, ...], states: tuple[JobState, ...]) -> Update:
    """The statement that changes a job in one of some states, with a parameter for each name.

    It is built once: building it takes as long as running it.
    """
    given = {name: bindparam(f"new_{name}", type_=jobs.c[name].type) for name in names}
    in_state = or_(*(jobs.c.state == state for state in states))
    return update(jobs).where(jobs.c.id == bindparam("job"), in_state).values(**given)


def is_in_state(state: JobState, running: Collection[str]) -> ColumnElement[bool]:
    """Selects the rows of jobs in a state, although those of running jobs may still say queued."""
    said = jobs.c.state == state
    if not running or state not in UNFINISHED:
        return said
    begun = jobs.c.id.in_(tuple(running))
    if state is JobState.QUEUED:
        return and_(said, not_(begun))
    return or_(said, and_(begun, jobs.c.state == JobState.QUEUED))
