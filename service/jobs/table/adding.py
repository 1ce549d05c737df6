"""Jobs are added: all of a POST or none, once for each Idempotency-Key.

A row protects its operands: matrices that it names are not removed, and the end of a job that it
waits for reaches it (`ending`). So operands are looked at once more in the transaction that adds
the row.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select

from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.errors import OperandNotFound
from wavetrim.service.jobs.job import PROMISE, Job, list_promised
from wavetrim.service.jobs.operands import find_result
from wavetrim.service.jobs.table.ending import Endings
from wavetrim.service.jobs.table.listing import find_jobs
from wavetrim.service.jobs.table.rows import make_row, read_job
from wavetrim.service.storage.database.database import split
from wavetrim.service.storage.database.tables import job_labels, jobs, matrices, scope_key

_NAMED: Final = ("a", "b", "c")

_OPTIONAL: Final[dict[str, Any]] = {
    "storage": "disk",
    "labels": [],
    "deadline": None,
    "timeout_seconds": None,
}
"""Defaults of fields that stored requests of earlier versions lack."""

# Statements that every job needs are built once, as building one takes as long as running it.
_ADDED: Final = insert(jobs)
_LOCKED: Final = (
    select(matrices.c.id)
    .where(matrices.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(matrices.c.id)
    .with_for_update(read=True)
)


def find_key(key: str, owner: str, index: int) -> str:
    """The Idempotency-Key of a job of a POST as it is stored: the first one has it as it is."""
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
    found: dict[str | None, Job] = {}
    for some in split(keys):
        made = connection.execute(select(jobs).where(jobs.c.idempotency_key.in_(some)))
        found |= {job.idempotency_key: job for job in map(read_job, made)}
    if not found:
        return []
    same = [found[one] for one in keys[:-1] if one in found]
    pairs = zip(same, requests, strict=False)
    if len(same) != len(requests) or keys[-1] in found or any(_differ(*pair) for pair in pairs):
        first = next(iter(found.values()))
        limit = f"a new key, or come with the request of job {first.id}, which it made"
        raise FieldProblem("Idempotency-Key", key, limit)
    return same


def _differ(job: Job, request: Mapping[str, Any]) -> bool:
    return _OPTIONAL | job.request != _OPTIONAL | dict(request)


def add_jobs(connection: Connection, new: Sequence[Job], endings: Endings) -> list[Job]:
    """Add the rows of new jobs; those that wait for others become followers of these.

    Returns:
        The jobs, with the results of those as operands that have succeeded by now.

    Raises:
        OperandNotFound: An operand does not exist (any more), nor a job that would make it.
        OperandEnded: A job that was to make an operand has failed or was cancelled.
    """
    if not new:
        return []
    awaited = {one for job in new for one in job.awaited}
    found = find_jobs(connection, awaited) if awaited else {}
    added = [_take_results(job, found) if job.awaited else job for job in new]
    _lock_operands(connection, added)
    connection.execute(_ADDED, [make_row(job) for job in added])
    labels = [{"job": job.id, "label": label} for job in added for label in set(job.labels)]
    if labels:
        connection.execute(insert(job_labels), labels)
    for job in added:
        endings.add(job.id, job.awaited)
    return added


def _take_results(job: Job, found: Mapping[str, Job]) -> Job:
    """A job with results as operands, as far as there are any."""
    a, b = _take_result("a", job.a, found), _take_result("b", job.b, found)
    c = None if job.c is None else _take_result("c", job.c, found)
    return replace(job, a=a, b=b, c=c)


def _take_result(field: str, operand: str, found: Mapping[str, Job]) -> str:
    for awaited in list_promised(operand):
        result = find_result(field, awaited, found)
        return result if isinstance(result, str) else operand
    return operand


def _lock_operands(connection: Connection, added: Sequence[Job]) -> None:
    """Lock operands' rows against deletion until the jobs' rows are there to protect them."""
    named = [
        (name, field)
        for job in added
        for field in _NAMED
        if (name := getattr(job, field)) is not None and not name.startswith(PROMISE)
    ]
    found: set[str] = set()
    for some in split(sorted({name for name, _ in named})):
        found |= set(connection.scalars(_LOCKED, {"ids": some}))
    for name, field in named:
        if name not in found:
            raise OperandNotFound(field, name)
