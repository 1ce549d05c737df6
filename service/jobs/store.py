"""The jobs, kept in the database.

Every change names the states it may start from in the UPDATE's WHERE, so two writers cannot both
win: the one who comes second changes nothing and is told so.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, Engine, case, delete, func, insert, null, or_, select

from wavetrim.service.errors import JobNotFound
from wavetrim.service.jobs.cursor import decode_cursor, encode_cursor
from wavetrim.service.jobs.errors import JobFinished, JobStateConflict
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.rows import (
    check_room,
    expect_same_request,
    fail_job,
    find_by_key,
    hold_operands,
    lock_adding,
    read_job,
    settle_job,
    update_job,
)
from wavetrim.service.storage.database import reading
from wavetrim.service.storage.tables import jobs

__all__ = ["Job", "JobState", "JobStore"]

_EXPIRED_BATCH: Final = 500
"""So many jobs are forgotten in one transaction."""


class JobStore:
    """Adds, reads and changes jobs. Thread-safe: each call is one transaction."""

    def __init__(self, database: Engine) -> None:
        self._database = database

    def add(
        self,
        request: Mapping[str, Any],
        *,
        priority: int = 0,
        idempotency_key: str | None = None,
        max_queued: int,
        retry_after_seconds: int = 1,
    ) -> tuple[Job, bool]:
        """Queues a job.

        Args:
            request: The request, ready for JSON; `a`, `b` and `c` are matrix ids.
            priority: The higher one runs first.
            idempotency_key: Makes a repeated call return the first job.
            max_queued: The most jobs that may wait.
            retry_after_seconds: What to tell a caller who finds the queue full.

        Returns:
            The job, and whether this call made it.

        Raises:
            IdempotencyConflict: The key belongs to a job with another request.
            OperandNotFound: An operand does not exist (any more).
            QueueFull: `max_queued` jobs wait already.
        """
        row = {
            "id": uuid.uuid4().hex,
            "state": JobState.QUEUED,
            "priority": priority,
            "request": dict(request),
            "a": request["a"],
            "b": request["b"],
            "c": request.get("c"),
            "idempotency_key": idempotency_key,
            "created_at": time.time(),
        }
        with self._database.begin() as connection:
            lock_adding(connection)
            first = find_by_key(connection, idempotency_key)
            if first is not None:
                return expect_same_request(first, request), False
            hold_operands(connection, request)
            check_room(connection, max_queued, retry_after_seconds)
            return read_job(
                connection.execute(insert(jobs).values(row).returning(jobs)).one()
            ), True

    def find_repeated(self, request: Mapping[str, Any], idempotency_key: str | None) -> Job | None:
        """The job that an earlier POST with the same key made, or None.

        Raises:
            IdempotencyConflict: That job has another request.
        """
        with reading(self._database) as connection:
            first = find_by_key(connection, idempotency_key)
        return None if first is None else expect_same_request(first, request)

    def get(self, job_id: str) -> Job:
        """Reads a job.

        Raises:
            JobNotFound: There is no job of that id.
        """
        _expect_id(job_id)
        with reading(self._database) as connection:
            row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
        if row is None:
            raise JobNotFound(job_id)
        return read_job(row)

    def page(
        self, *, state: JobState | None = None, limit: int = 50, cursor: str | None = None
    ) -> tuple[tuple[Job, ...], str | None]:
        """Reads some jobs, newest first.

        Args:
            state: Only jobs in this state.
            limit: The most jobs to return.
            cursor: Where an earlier page ended.

        Returns:
            The jobs, and the cursor of the next page (None after the last one). Jobs added
            between two calls never shift a page.

        Raises:
            CursorUnknown: The cursor was not made by this method.
        """
        wanted = select(jobs).order_by(jobs.c.sequence.desc()).limit(limit + 1)
        if state is not None:
            wanted = wanted.where(jobs.c.state == state)
        if cursor is not None:
            wanted = wanted.where(jobs.c.sequence < decode_cursor(cursor))
        with reading(self._database) as connection:
            found = tuple(read_job(row) for row in connection.execute(wanted))
        shown = found[:limit]
        return shown, encode_cursor(shown[-1].sequence) if len(found) > limit else None

    def next_queued(self) -> Job | None:
        """The job to run next: the highest priority, then the oldest."""
        first = (
            select(jobs)
            .where(jobs.c.state == JobState.QUEUED)
            .order_by(jobs.c.priority.desc(), jobs.c.sequence)
            .limit(1)
        )
        with reading(self._database) as connection:
            row = connection.execute(first).one_or_none()
        return None if row is None else read_job(row)

    def count_by_state(self) -> dict[JobState, int]:
        """How many jobs there are in each state."""
        counted = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        with reading(self._database) as connection:
            found = {JobState(state): count for state, count in connection.execute(counted)}
        return {state: found.get(state, 0) for state in JobState}

    def start(self, job_id: str) -> Job | None:
        """Queued → running, the first try. None when the job is not queued any more."""
        return self._change(
            job_id,
            JobState.QUEUED,
            state=JobState.RUNNING,
            attempts=jobs.c.attempts + 1,
            started_at=func.coalesce(jobs.c.started_at, time.time()),
        )

    def start_again(self, job_id: str) -> Job | None:
        """One more try of a running job, from progress 0."""
        return self._change(
            job_id, JobState.RUNNING, attempts=jobs.c.attempts + 1, progress=0.0, plan=null()
        )

    def record_plan(self, job_id: str, plan: Mapping[str, Any]) -> None:
        """Keeps what the scheduler chose for the try that runs."""
        self._change(job_id, JobState.RUNNING, plan=dict(plan))

    def record_progress(self, job_id: str, progress: float) -> None:
        """Keeps how far the try that runs has come."""
        self._change(job_id, JobState.RUNNING, progress=progress)

    def succeed(
        self,
        connection: Connection,
        job_id: str,
        *,
        result: str,
        plan: Mapping[str, Any],
        timings: Mapping[str, float | None],
        verification: Mapping[str, Any] | None,
    ) -> None:
        """Running → succeeded, in the transaction that publishes the product.

        So a job has succeeded if and only if its product is there.

        Args:
            connection: The transaction.
            job_id: The job.
            result: Id of the product.
            plan: What was run.
            timings: Measured seconds.
            verification: Outcome of the check, if one was asked for.

        Raises:
            JobStateConflict: The job is not running any more.
        """
        changes = {
            "state": JobState.SUCCEEDED,
            "progress": 1.0,
            "result": result,
            "plan": dict(plan),
            "timings": dict(timings),
            "verification": null() if verification is None else dict(verification),
            "finished_at": time.time(),
        }
        if update_job(connection, job_id, (JobState.RUNNING,), changes) is None:
            raise JobStateConflict(job_id, "not running", "running to succeed")

    def fail(self, job: Job, kind: str, message: str) -> Job | None:
        """Running → failed. None when the job is not running any more."""
        with self._database.begin() as connection:
            return fail_job(connection, job, kind, message)

    def cancel(self, job_id: str) -> Job | None:
        """Running → cancelled. None when the job is not running any more."""
        return self._change(
            job_id, JobState.RUNNING, state=JobState.CANCELLED, finished_at=time.time()
        )

    def release(self, job_id: str) -> Job | None:
        """Running → queued, as if the try had never begun: the service stops before the job."""
        return self._change(
            job_id,
            JobState.RUNNING,
            state=JobState.QUEUED,
            attempts=jobs.c.attempts - 1,
            progress=0.0,
            plan=null(),
        )

    def request_cancel(self, job_id: str) -> Job:
        """Cancels a queued job at once and marks a running one; a cancelled job stays as it is.

        Raises:
            JobNotFound: There is no job of that id.
            JobFinished: The job has succeeded or failed already.
        """
        _expect_id(job_id)
        queued = jobs.c.state == JobState.QUEUED
        changed = self._change(
            job_id,
            JobState.QUEUED,
            JobState.RUNNING,
            state=case((queued, JobState.CANCELLED), else_=jobs.c.state),
            finished_at=case((queued, time.time()), else_=jobs.c.finished_at),
            cancel_requested=True,
        )
        job = changed or self.get(job_id)
        if job.state in (JobState.SUCCEEDED, JobState.FAILED):
            raise JobFinished(job_id, job.state)
        return job

    def requeue_interrupted(self, max_attempts: int) -> tuple[Job, ...]:
        """Settle the jobs that ran when the service ended: called once, before any job starts.

        A job goes back to the queue; one whose tries are used up fails, and one that was being
        cancelled is cancelled.

        Returns:
            The jobs as they are now.
        """
        with self._database.begin() as connection:
            found = select(jobs.c.id).where(jobs.c.state == JobState.RUNNING)
            settled = [
                settle_job(connection, job_id, max_attempts)
                for job_id in connection.scalars(found).all()
            ]
        return tuple(job for job in settled if job is not None)

    def settle(self, job_id: str, max_attempts: int) -> Job | None:
        """Settle one job whose run broke off, as `requeue_interrupted` does.

        Returns:
            The job as it is now; None when it was not running.
        """
        with self._database.begin() as connection:
            return settle_job(connection, job_id, max_attempts)

    def expire(self, ttl_seconds: float, *, start: float, most: int) -> int:
        """Forgets finished jobs; their products stay.

        Args:
            ttl_seconds: Those that ended so long ago; 0 for none.
            start: No age is counted from before this time.
            most: Those beyond so many, the oldest first.

        Returns:
            How many were forgotten.
        """
        before = time.time() - ttl_seconds
        forgotten = 0
        while count := self._expire_batch(before if ttl_seconds and start < before else 0.0, most):
            forgotten += count
        return forgotten

    def _expire_batch(self, before: float, most: int) -> int:
        finished = jobs.c.state.in_([state for state in JobState if state.finished])
        newest = select(jobs.c.sequence).where(finished).order_by(jobs.c.sequence.desc())
        with reading(self._database) as connection:
            first_kept = connection.scalar(newest.offset(most).limit(1)) or 0
            old = or_(jobs.c.finished_at < before, jobs.c.sequence <= first_kept)
            wanted = select(jobs.c.sequence).where(finished, old).order_by(jobs.c.sequence)
            batch = list(connection.scalars(wanted.limit(_EXPIRED_BATCH)))
        if batch:
            with self._database.begin() as connection:
                connection.execute(delete(jobs).where(jobs.c.sequence.in_(batch), finished))
        return len(batch)

    def _change(self, job_id: str, *states: JobState, **changes: Any) -> Job | None:
        with self._database.begin() as connection:
            return update_job(connection, job_id, states, changes)


def _expect_id(job_id: str) -> None:
    # PostgreSQL refuses a NUL in a string; no id has anything but letters and digits.
    if not (job_id.isascii() and job_id.isalnum()):
        raise JobNotFound(job_id)
