"""The SQL statements of jobs: each runs inside a transaction of its caller.

Statements that every job needs are built once, as building one takes as long as running it.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    Null,
    Row,
    Update,
    and_,
    bindparam,
    func,
    insert,
    not_,
    null,
    or_,
    select,
    update,
)

from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.service.clock import read_clock
from wavetrim.service.errors import QuotaReached
from wavetrim.service.jobs.errors import (
    IdempotencyConflict,
    JobStateConflict,
    OperandNotFound,
    QueueFull,
)
from wavetrim.service.jobs.job import UNFINISHED, Job, JobState
from wavetrim.service.storage.database.ownership import is_owned, read_owner, scope_key
from wavetrim.service.storage.database.tables import api_keys, jobs, matrices

_ADD_LOCK: Final = 0x7761_7666
"""Key of the PostgreSQL advisory lock under which jobs are added, one at a time."""

_OPTIONAL: Final[dict[str, Any]] = {"storage": "disk"}
"""Defaults of fields that stored requests of earlier versions lack."""

_ADDED: Final = insert(jobs).returning(jobs)
_NAMED: Final = ("a", "b", "c")
_HELD: Final = (
    select(matrices.c.id)
    .where(or_(*(matrices.c.id == bindparam(field) for field in _NAMED)))
    .order_by(matrices.c.id)
    .with_for_update(read=True)
)
_QUOTA: Final = select(api_keys.c.max_queued_jobs).where(api_keys.c.name == bindparam("owner"))
_ALL_QUEUED: Final = select(func.count()).where(jobs.c.state == JobState.QUEUED)


def add_job(connection: Connection, row: Mapping[str, Any]) -> Job:
    """Add a job's row."""
    return read_job(connection.execute(_ADDED, row).one())


def read_job(row: Row[Any]) -> Job:
    """The job of a row of the jobs table.

    Options that a stored request lacks, because an earlier version did not have them, are left
    open, as if it were posted now.
    """
    columns = read_owner(dict(row._mapping))
    columns["state"] = JobState(columns["state"])
    columns["request"] = NO_OPTIONS.as_dict() | columns["request"]
    return Job(**columns)


def update_job(
    connection: Connection, job_id: str, states: tuple[JobState, ...], changes: Mapping[str, Any]
) -> Job | None:
    """Change a job if it is in one of the states; None if not."""
    nulls = tuple(name for name, value in changes.items() if isinstance(value, Null))
    plain = {name: value for name, value in changes.items() if name not in nulls}
    if any(isinstance(value, ClauseElement) for value in plain.values()):
        change, given = _build_update(states, nulls, ()).values(**plain), {}
    else:
        change = _build_update(states, nulls, tuple(plain))
        given = {f"new_{name}": value for name, value in plain.items()}
    row = connection.execute(change, {"job": job_id, **given}).one_or_none()
    return None if row is None else read_job(row)


@lru_cache(maxsize=64)
def _build_update(
    states: tuple[JobState, ...], nulls: tuple[str, ...], names: tuple[str, ...]
) -> Update:
    """The statement that changes a job in one of some states, with a parameter for each name."""
    given = {name: bindparam(f"new_{name}", type_=jobs.c[name].type) for name in names}
    in_state = or_(*(jobs.c.state == state for state in states))
    change = update(jobs).where(jobs.c.id == bindparam("job"), in_state)
    return change.values(**dict.fromkeys(nulls, null()), **given).returning(jobs)


def lock_adding(connection: Connection) -> None:
    """Let one transaction at a time add jobs, so that counts and keys hold until the commit."""
    # On SQLite BEGIN IMMEDIATE has made this transaction the only writer already.
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_ADD_LOCK)))


def find_first(
    connection: Connection, request: Mapping[str, Any], owner: str, idempotency_key: str | None
) -> Job | None:
    """The job that the same request has made before; None without one, or without a key.

    Raises:
        IdempotencyConflict: That job has another request.
    """
    if idempotency_key is None:
        return None
    kept = scope_key(owner, idempotency_key)
    row = connection.execute(select(jobs).where(jobs.c.idempotency_key == kept)).one_or_none()
    if row is None:
        return None
    first = read_job(row)
    if _OPTIONAL | first.request != _OPTIONAL | dict(request):
        raise IdempotencyConflict(idempotency_key, first.id)
    return first


def hold_operands(connection: Connection, request: Mapping[str, Any]) -> None:
    """Lock the operands' rows against deletion until the job's row is there to protect them.

    Raises:
        OperandNotFound: An operand does not exist.
    """
    wanted = {field: request.get(field) for field in _NAMED}
    found = set(connection.scalars(_HELD, wanted))
    for field, matrix_id in wanted.items():
        if matrix_id is not None and matrix_id not in found:
            raise OperandNotFound(field, matrix_id)


def describe_run(job: Job) -> dict[str, Any]:
    """The columns that say how far a run has come."""
    return {
        "state": JobState.RUNNING,
        "attempts": job.attempts,
        "started_at": job.started_at,
        "plan": null() if job.plan is None else job.plan,
        "progress": job.progress,
    }


def check_room(
    connection: Connection, max_queued: int, retry_after_seconds: int, running: Collection[str]
) -> None:
    """Refuse one more job when `max_queued` wait, not counting those that run.

    Raises:
        QueueFull: `max_queued` jobs wait already.
    """
    # The quick count comes first; it includes running jobs whose rows still say queued.
    if connection.execute(_ALL_QUEUED).scalar_one() < max_queued:
        return
    queued = count_queued(connection, None, running)
    if queued >= max_queued:
        raise QueueFull("queued jobs", queued + 1, max_queued, retry_after_seconds)


def check_quota(connection: Connection, owner: str, running: Collection[str]) -> None:
    """Refuse one more job of an owner when its key's quota is used up.

    Raises:
        QuotaReached: As many jobs wait as the quota allows.
    """
    most = connection.scalar(_QUOTA, {"owner": owner})
    if most is None:
        return
    queued = count_queued(connection, owner, running)
    if queued >= most:
        limit = f"at most {most}, the key's quota (--max-queued-jobs)"
        raise QuotaReached("queued jobs", queued + 1, limit)


def count_queued(connection: Connection, owner: str | None, running: Collection[str]) -> int:
    """How many jobs of an owner wait, not counting those that run; None for everybody's."""
    waiting = is_in_state(JobState.QUEUED, running), is_owned(jobs, owner)
    return connection.execute(select(func.count()).where(*waiting)).scalar_one()


def is_in_state(state: JobState, running: Collection[str]) -> ColumnElement[bool]:
    """Selects the rows of jobs in a state, although those of running jobs may still say queued."""
    said = jobs.c.state == state
    if not running or state not in UNFINISHED:
        return said
    begun = jobs.c.id.in_(tuple(running))
    if state is JobState.QUEUED:
        return and_(said, not_(begun))
    return or_(said, and_(begun, jobs.c.state == JobState.QUEUED))


def succeed_job(
    connection: Connection,
    job: Job,
    *,
    result: str,
    plan: Mapping[str, Any],
    timings: Mapping[str, float | None],
    verification: Mapping[str, Any] | None,
) -> Job:
    """Unfinished → succeeded, in the transaction that publishes the product: both or neither.

    Args:
        connection: The transaction.
        job: The job, as its run knows it.
        result: Id of the product.
        plan: What was run.
        timings: Measured seconds.
        verification: Outcome of the check, if one was asked for.

    Raises:
        JobStateConflict: The job has ended before.
    """
    changes = describe_run(job) | {
        "state": JobState.SUCCEEDED,
        "progress": 1.0,
        "result": result,
        "plan": dict(plan),
        "timings": dict(timings),
        "verification": null() if verification is None else dict(verification),
        "finished_at": read_clock(),
    }
    ended = update_job(connection, job.id, UNFINISHED, changes)
    if ended is None:
        raise JobStateConflict(job.id, "finished", "queued or running to succeed")
    return ended


def fail_job(connection: Connection, job: Job, kind: str, message: str) -> Job | None:
    """Unfinished → failed; None when the job has ended before."""
    error = {"kind": kind, "message": message, "attempts": job.attempts}
    changes = {"state": JobState.FAILED, "error": error, "finished_at": read_clock()}
    return update_job(connection, job.id, UNFINISHED, describe_run(job) | changes)


def cancel_job(connection: Connection, job: Job) -> Job | None:
    """Unfinished → cancelled; None when the job has ended before."""
    changes = {"state": JobState.CANCELLED, "finished_at": read_clock()}
    return update_job(connection, job.id, UNFINISHED, describe_run(job) | changes)


def lock_job(connection: Connection, job_id: str) -> bool:
    """Let no other transaction change a job until this one ends; returns `cancel_requested`."""
    wanted = select(jobs.c.cancel_requested).where(jobs.c.id == job_id)
    return bool(connection.scalar(wanted.with_for_update()))


def release_job(connection: Connection, job: Job) -> Job | None:
    """Queue a job as if its try had never begun, or cancel it if that was asked for.

    Returns:
        The job as it is now; None when it has ended before.
    """
    if lock_job(connection, job.id):
        return cancel_job(connection, job)
    attempts = job.attempts - 1
    changes = {"state": JobState.QUEUED, "attempts": attempts, "progress": 0.0, "plan": null()}
    return update_job(connection, job.id, UNFINISHED, changes)


def is_interrupted() -> ColumnElement[bool]:
    """Selects the rows of jobs whose runs broke off: while no job runs, none may stay so.

    A cancellation is kept in the row of a job that runs. So one that is queued there has run, too.
    """
    unwanted = and_(jobs.c.state == JobState.QUEUED, jobs.c.cancel_requested)
    return or_(jobs.c.state == JobState.RUNNING, unwanted)


def settle_job(connection: Connection, job_id: str, max_attempts: int) -> Job | None:
    """Queue again, fail or cancel a job whose run broke off; None for any other."""
    wanted = select(jobs).where(jobs.c.id == job_id, is_interrupted())
    row = connection.execute(wanted.with_for_update()).one_or_none()
    if row is None:
        return None
    job = read_job(row)
    if job.cancel_requested:
        changes = {"state": JobState.CANCELLED, "finished_at": read_clock()}
    elif job.attempts >= max_attempts:
        return fail_job(connection, job, "interrupted", "every try of the job was interrupted")
    else:
        changes = {"state": JobState.QUEUED, "progress": 0.0, "plan": null()}
    return update_job(connection, job_id, UNFINISHED, changes)
