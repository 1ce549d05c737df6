"""Rows of the jobs table: made of requests, added, changed, and read as jobs.

All jobs of a POST are added or none, once for each Idempotency-Key. A row protects its operands:
matrices that it names are not removed, and the end of a job that it waits for reaches it. So
operands are looked at once more in the transaction that adds the row.

A row says that its job is queued until that has ended; that it runs is known in memory only. A job
is changed only if its row says that it has not ended. Of two changes that both end a job the second
one so changes nothing, and is told so.
"""

import hashlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.errors import OperandNotFound
from wavetrim.service.jobs.job import PROMISE, Job, JobRequest, JobState
from wavetrim.service.storage.database.database import split
from wavetrim.service.storage.database.tables import (
    UNFINISHED,
    job_labels,
    jobs,
    matrices,
    scope_key,
)

_APART: Final = ("sequence", "idempotency_key")
"""Columns that are not of a job: where it stands in lists, and the key of its POST."""

_COLUMNS: Final = tuple(column.name for column in jobs.c if column.name not in _APART)

_WRITTEN: Final = (
    "state", "progress", "attempts", "started_at", "finished_at", "plan", "timings",
    "verification", "error", "result",
)  # fmt: skip
"""Columns that the run of a job and its end change."""

_DEFAULTS: Final[dict[str, Any]] = {
    name: field.default
    for name, field in JobRequest.model_fields.items()
    if not field.is_required()
}
"""Of fields that a stored request may lack, as an earlier version did not have them."""

# Statements that every job needs are built once, as building one takes as long as running it.
_CHANGED: Final = (
    update(jobs)
    .where(jobs.c.id == bindparam("job"), or_(*(jobs.c.state == state for state in UNFINISHED)))
    .values({name: bindparam(f"new_{name}", type_=jobs.c[name].type) for name in _WRITTEN})
)
_ADDED: Final = insert(jobs)
_LOCKED: Final = (
    select(matrices.c.id)
    .where(matrices.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(matrices.c.id)
    .with_for_update(read=True)
)


def make_job(request: Mapping[str, Any], *, owner: str = "", trace: str | None = None) -> Job:
    """A new job, which has no row and no shape yet.

    In the request `a`, `b` and `c` are ids of matrices, or of jobs as {"job": id}.
    """
    operands: dict[str, Any] = {
        name: PROMISE + one["job"] if isinstance(one := request.get(name), Mapping) else one
        for name in ("a", "b", "c")
    }
    return Job(
        id=uuid.uuid4().hex, priority=request["priority"], request=dict(request), shape=None,
        created_at=read_clock(), owner=owner, trace=trace, **operands,
    )  # fmt: skip


def _make_row(job: Job, key: str | None) -> dict[str, Any]:
    row = {name: getattr(job, name) for name in _COLUMNS}
    return row | {"owner": job.owner or None, "idempotency_key": key}


def read_job(row: Row[Any]) -> Job:
    """The job of a row of the jobs table."""
    columns = {name: row._mapping[name] for name in _COLUMNS}
    columns["owner"] = columns["owner"] or ""
    columns["state"] = JobState(columns["state"])
    columns["request"] = _DEFAULTS | columns["request"]
    if columns["shape"] is not None:
        columns["shape"] = tuple(columns["shape"])
    return Job(**columns)


def write_jobs(connection: Connection, changed: Sequence[Job], **others: Any) -> bool:
    """Write jobs, and other columns of theirs; returns whether none had ended before.

    Of one that runs it is written that it is queued.
    """
    change = _CHANGED.values(**others) if others else _CHANGED
    return connection.execute(change, list(map(_name_values, changed))).rowcount == len(changed)


def _name_values(job: Job) -> dict[str, Any]:
    values = {"job": job.id, **{f"new_{name}": getattr(job, name) for name in _WRITTEN}}
    return values if job.state.finished else values | {"new_state": JobState.QUEUED}


def find_jobs(connection: Connection, ids: Collection[str] | None) -> dict[str, Job]:
    """The jobs that exist, by their ids, the oldest first; without ids all that have not ended."""
    lists = [UNFINISHED] if ids is None else split(sorted(ids))
    column = jobs.c.state if ids is None else jobs.c.id
    wanted = select(jobs).order_by(jobs.c.sequence)
    found = [
        read_job(row)
        for some in lists
        for row in connection.execute(wanted.where(column.in_(some)))
    ]
    return {job.id: job for job in found}


def find_key(key: str, owner: str, index: int) -> str:
    """The Idempotency-Key of a job of a POST as its row has it: of the first one as it is."""
    scoped = scope_key(owner, key)
    if not index:
        return scoped
    return "\n" + hashlib.sha256(f"{scoped}\n{index}".encode()).hexdigest()


def find_first(
    connection: Connection, requests: Sequence[Mapping[str, Any]], owner: str, key: str | None
) -> list[Job]:
    """The jobs that the same POST has made before; none without a key.

    Raises:
        FieldProblem: Those jobs have other requests.
    """
    if key is None:
        return []
    # One more than there are requests: an earlier POST may have made more.
    keys = [find_key(key, owner, index) for index in range(len(requests) + 1)]
    found: dict[str, Job] = {}
    for some in split(keys):
        made = connection.execute(select(jobs).where(jobs.c.idempotency_key.in_(some)))
        found |= {row.idempotency_key: read_job(row) for row in made}
    if not found:
        return []
    same = [found[one] for one in keys[:-1] if one in found]
    wanted = [_DEFAULTS | dict(request) for request in requests]
    if [job.request for job in same] != wanted or keys[-1] in found:
        first = next(iter(found.values()))
        limit = f"a new key, or come with the request of job {first.id}, which it made"
        raise FieldProblem("Idempotency-Key", key, limit)
    return same


def add_jobs(connection: Connection, new: Sequence[Job], keys: Sequence[str | None]) -> list[Job]:
    """Add the rows of new jobs.

    Args:
        connection: In whose transaction.
        new: The jobs.
        keys: The key of each, from `find_key`.

    Returns:
        The jobs, with the results of those as operands that have succeeded by now.

    Raises:
        OperandNotFound: An operand does not exist (any more), nor a job that would make it.
        JobStateConflict: A job that was to make an operand has failed or was cancelled.
    """
    if not new:
        return []
    awaited = {one for job in new for one in job.awaited.values()}
    found = find_jobs(connection, awaited) if awaited else {}
    added = [job.take_results(found) for job in new]
    _lock_operands(connection, added)
    connection.execute(_ADDED, list(map(_make_row, added, keys)))
    labels = [{"job": job.id, "label": label} for job in added for label in set(job.labels)]
    if labels:
        connection.execute(insert(job_labels), labels)
    return added


def _lock_operands(connection: Connection, added: Sequence[Job]) -> None:
    """Lock operands' rows against deletion until the jobs' rows are there to protect them."""
    named = [(name, field) for job in added for field, name in job.stored.items()]
    found: set[str] = set()
    for some in split(sorted({name for name, _ in named})):
        found |= set(connection.scalars(_LOCKED, {"ids": some}))
    for name, field in named:
        if name not in found:
            raise OperandNotFound(field, name)
