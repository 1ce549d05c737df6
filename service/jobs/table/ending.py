"""Jobs end: one succeeds, fails or is cancelled, or its run breaks off.

What waits for the result of a job is changed in the transaction in which that job ends: it gets the
result as its operand, or ends as well. So no row ever waits for a job that has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, or_, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import PROMISE, UNFINISHED, Job, JobState
from wavetrim.service.jobs.table.followers import Followers
from wavetrim.service.jobs.table.rows import (
    change_rows,
    describe_run,
    read_job,
    split,
    update_job,
)
from wavetrim.service.storage.database.tables import jobs


@dataclass(slots=True, eq=False)
class Success:
    """A job that succeeds.

    Attributes:
        job: The job, as its run knows it.
        result: Id of the product.
        plan: What was run.
        timings: Measured seconds.
        verification: Outcome of the check, if one was asked for.
        ended: The job as it has ended.
    """

    job: Job
    result: str
    plan: dict[str, Any]
    timings: dict[str, float | None]
    verification: dict[str, Any] | None
    ended: Job | None = None


def succeed_jobs(
    connection: Connection, successes: Sequence[Success], followers: Followers
) -> Sequence[None]:
    """Unfinished → succeeded, in the transaction that publishes the products: both or neither.

    Args:
        connection: The transaction.
        successes: The jobs.
        followers: Those that wait for others.

    Raises:
        JobStateConflict: One of the jobs has ended before.
    """
    changes = {}
    for one in successes:
        found: dict[str, Any] = {
            "state": JobState.SUCCEEDED,
            "progress": 1.0,
            "result": one.result,
            "plan": one.plan,
            "timings": one.timings,
            "verification": one.verification,
            "finished_at": read_clock(),
        }
        changes[one.job.id] = describe_run(one.job) | found
        one.ended = replace(one.job, **found, rows_done=None)
    if not change_rows(connection, UNFINISHED, changes):
        raise JobStateConflict(successes[0].job.id, "finished", "queued or running to succeed")
    for one in successes:
        for some in split(followers.find(one.job.id)):
            for operand in (jobs.c.a, jobs.c.b, jobs.c.c):
                waits = jobs.c.id.in_(some), operand == PROMISE + one.job.id
                connection.execute(update(jobs).where(*waits).values({operand: one.result}))
    return [None] * len(successes)


def fail_job(
    connection: Connection, job: Job, followers: Followers, kind: str, message: str
) -> Job | None:
    """Unfinished → failed; None when the job has ended before."""
    error = {"kind": kind, "message": message, "attempts": job.attempts}
    changes = {"state": JobState.FAILED, "error": error, "finished_at": read_clock()}
    failed = update_job(connection, job.id, UNFINISHED, describe_run(job) | changes)
    return _end_followers(connection, failed, followers)


def cancel_job(connection: Connection, job: Job, followers: Followers) -> Job | None:
    """Unfinished → cancelled; None when the job has ended before."""
    changes = {"state": JobState.CANCELLED, "finished_at": read_clock()}
    cancelled = update_job(connection, job.id, UNFINISHED, describe_run(job) | changes)
    return _end_followers(connection, cancelled, followers)


def mark_cancelled(
    connection: Connection, job_id: str, running: Job | None, followers: Followers
) -> Job | None:
    """Cancel a job that is queued, or note in its row that it is to be; None when it has ended.

    Args:
        connection: The transaction.
        job_id: The job.
        running: The job as its run knows it; None if it does not run.
        followers: Those that wait for it.
    """
    if running is not None and running.state is JobState.RUNNING:
        changes = describe_run(running) | {"cancel_requested": True}
    else:
        queued = jobs.c.state == JobState.QUEUED
        changes = {
            "state": case((queued, JobState.CANCELLED), else_=jobs.c.state),
            "finished_at": case((queued, read_clock()), else_=jobs.c.finished_at),
            "cancel_requested": True,
        }
    marked = update_job(connection, job_id, UNFINISHED, changes)
    return _end_followers(connection, marked, followers)


def release_job(connection: Connection, job: Job, followers: Followers) -> Job | None:
    """Queue a job as if its try had never begun, or cancel it if that was asked for.

    Returns:
        The job as it is now; None when it has ended before.
    """
    wanted = select(jobs.c.cancel_requested).where(jobs.c.id == job.id)
    if connection.scalar(wanted):
        return cancel_job(connection, job, followers)
    attempts = job.attempts - 1
    changes = {"state": JobState.QUEUED, "attempts": attempts, "progress": 0.0, "plan": None}
    return update_job(connection, job.id, UNFINISHED, changes)


def list_interrupted(connection: Connection) -> list[str]:
    """The ids of the jobs whose runs broke off, while no job runs."""
    return list(connection.scalars(select(jobs.c.id).where(_is_interrupted())))


def _is_interrupted() -> ColumnElement[bool]:
    """Selects the rows of jobs whose runs broke off: while no job runs, none may stay so.

    A cancellation is kept in the row of a job that runs. So one that is queued there has run, too.
    """
    unwanted = and_(jobs.c.state == JobState.QUEUED, jobs.c.cancel_requested)
    return or_(jobs.c.state == JobState.RUNNING, unwanted)


def settle_job(
    connection: Connection, job_id: str, max_attempts: int, followers: Followers
) -> Job | None:
    """Queue again, fail or cancel a job whose run broke off; None for any other."""
    wanted = select(jobs).where(jobs.c.id == job_id, _is_interrupted())
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    job = read_job(row)
    if job.cancel_requested:
        return cancel_job(connection, job, followers)
    if job.attempts >= max_attempts:
        message = "every try of the job was interrupted"
        return fail_job(connection, job, followers, "interrupted", message)
    changes = {"state": JobState.QUEUED, "progress": 0.0, "plan": None}
    return update_job(connection, job_id, UNFINISHED, changes)


def _end_followers(connection: Connection, ended: Job | None, followers: Followers) -> Job | None:
    """End all that wait for a job without a result, and what waits for these; returns the job."""
    if ended is None or not ended.state.finished:
        return ended
    left = [ended]
    for operand in left:
        needed = f"job {operand.id}"
        if operand is not ended:
            needed += f", and so that of job {ended.id}"
        message = f"it needs the result of {needed}, which {ended.say_end()}"
        changes = {
            "state": ended.state,
            "error": {"kind": "operand", "message": message, "attempts": 0},
            "finished_at": read_clock(),
        }
        for some in split(followers.find(operand.id)):
            waits = jobs.c.id.in_(some), jobs.c.state == JobState.QUEUED
            change = update(jobs).where(*waits).values(changes).returning(jobs)
            left += map(read_job, connection.execute(change).all())
    return ended
