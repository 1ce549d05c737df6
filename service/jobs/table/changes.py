"""Jobs are added and end, each in a transaction with what it means for other jobs.

All jobs of a POST are added or none, once for each Idempotency-Key. A row protects its operands:
matrices that it names are not removed, and the end of a job that it waits for reaches it. So
operands are looked at once more in the transaction that adds the row.

What waits for the result of a job is changed in the transaction in which that job ends: it gets the
result as its operand, or ends as well. So no row ever waits for a job that has ended.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.errors import JobStateConflict, OperandNotFound
from wavetrim.service.jobs.job import MOST_TRIES, PROMISE, Job, JobState
from wavetrim.service.jobs.operands import find_result
from wavetrim.service.jobs.table.rows import find_jobs, make_row, read_job, write_all, write_job
from wavetrim.service.storage.database.database import split
from wavetrim.service.storage.database.tables import job_labels, jobs, matrices, scope_key

_LATER: Final[dict[str, Any]] = {
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
    return _LATER | job.request != _LATER | dict(request)


def add_jobs(connection: Connection, new: Sequence[Job], endings: "Endings") -> list[Job]:
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
    found = find_jobs(connection, awaited)
    added = [_take_results(job, found) if awaited else job for job in new]
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
    results: dict[str, Any] = {
        field: result
        for field, awaited in job.promises.items()
        if isinstance(result := find_result(field, awaited, found), str)
    }
    return replace(job, **results)


def _lock_operands(connection: Connection, added: Sequence[Job]) -> None:
    """Lock operands' rows against deletion until the jobs' rows are there to protect them."""
    named = [
        (name, field)
        for job in added
        for field, name in job.operands.items()
        if not name.startswith(PROMISE)
    ]
    found: set[str] = set()
    for some in split(sorted({name for name, _ in named})):
        found |= set(connection.scalars(_LOCKED, {"ids": some}))
    for name, field in named:
        if name not in found:
            raise OperandNotFound(field, name)


@dataclass(slots=True, eq=False)
class Success:
    """A job that succeeds.

    Attributes:
        job: The job with its result; as it has succeeded, once that is written.
    """

    job: Job


class Endings:
    """Ends jobs, and knows which others wait for their results. Thread-safe.

    Rows say so, too; but to look there at the end of each job would cost a statement. The thread
    that changes rows adds followers, too, so that each is added before or after an end, never
    meanwhile. A job may be here that waits no more, or was not added after all: its row decides.
    """

    def __init__(self) -> None:
        self._by_awaited: dict[str, dict[str, None]] = {}

    def add(self, job_id: str, awaited: Iterable[str]) -> None:
        """A job waits for others, which have not ended."""
        for one in awaited:
            self._by_awaited.setdefault(one, {})[job_id] = None

    def find(self, job_id: str) -> list[str]:
        """The jobs that wait for a job."""
        return list(self._by_awaited.get(job_id, ()))

    def take(self, job_id: str) -> list[str]:
        """The jobs that have waited for a job, which has ended."""
        return list(self._by_awaited.pop(job_id, ()))

    def succeed(self, connection: Connection, successes: Sequence[Success]) -> Sequence[None]:
        """Unfinished → succeeded, in the transaction that publishes the products: both or neither.

        Raises:
            JobStateConflict: One of the jobs has ended before.
        """
        for one in successes:
            one.job = one.job.succeed()
        ended = [one.job for one in successes]
        if not write_all(connection, ended):
            raise JobStateConflict(ended[0].id, "finished", "queued or running to succeed")
        for job in ended:
            for some in split(self.find(job.id)):
                for operand in (jobs.c.a, jobs.c.b, jobs.c.c):
                    waits = jobs.c.id.in_(some), operand == PROMISE + job.id
                    connection.execute(update(jobs).where(*waits).values({operand: job.result}))
        return [None] * len(successes)

    def end(self, connection: Connection, ended: Job) -> Job | None:
        """Unfinished → failed or cancelled; None when the job has ended before."""
        others = {"cancel_requested": True} if ended.state is JobState.CANCELLED else {}
        return self._end_followers(connection, write_job(connection, ended, **others))

    def queue_again(self, connection: Connection, job: Job, attempts: int) -> Job | None:
        """Queue a job again whose run broke off, as after some tries.

        If it was to be cancelled, it is; if its tries are used up, it fails.
        """
        row = find_jobs(connection, [job.id]).get(job.id)
        if row is None:
            return None
        if row.cancel_requested:
            return self.end(connection, job.cancel())
        if attempts >= MOST_TRIES:
            message = "every try of the job was interrupted"
            return self.end(connection, job.fail("interrupted", message))
        return write_job(connection, job.wait_again(attempts))

    def _end_followers(self, connection: Connection, ended: Job | None) -> Job | None:
        """End all that wait for a job without a result, and what waits for these."""
        left = [] if ended is None else [ended]
        for operand in left:
            needed = f"job {operand.id}"
            if operand is not ended:
                needed += f", and so that of job {left[0].id}"
            message = f"it needs the result of {needed}, which {left[0].say_end()}"
            changes = {
                "state": left[0].state,
                "error": {"kind": "operand", "message": message, "attempts": 0},
                "finished_at": read_clock(),
            }
            for some in split(self.find(operand.id)):
                waits = jobs.c.id.in_(some), jobs.c.state == JobState.QUEUED
                change = update(jobs).where(*waits).values(changes).returning(jobs)
                left += map(read_job, connection.execute(change).all())
        return ended
