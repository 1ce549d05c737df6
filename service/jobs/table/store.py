"""The jobs, kept in the database.

Every UPDATE names in its WHERE the states it may start from, so two writers cannot both win: the
second one changes nothing and is told so.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, case, func, select

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.errors import JobFinished, JobNotFound
from wavetrim.service.jobs.job import UNFINISHED, Job, JobState
from wavetrim.service.jobs.table.listing import count_by_state, forget_finished, read_page
from wavetrim.service.jobs.table.rows import (
    add_job,
    cancel_job,
    check_quota,
    check_room,
    count_queued,
    describe_run,
    fail_job,
    find_first,
    hold_operands,
    is_in_state,
    is_interrupted,
    lock_adding,
    lock_job,
    read_job,
    release_job,
    settle_job,
    update_job,
)
from wavetrim.service.storage.database.database import reading, unsynced
from wavetrim.service.storage.database.ownership import is_owned, scope_key
from wavetrim.service.storage.database.tables import jobs


class JobStore:
    """Adds, reads and changes jobs. Thread-safe: each call is one transaction.

    Attributes:
        running: The jobs that run, by their ids, as their runs know them. They go before what
            their rows say. One that is queued here has not begun its first try, or has been given
            up by its run, which ends now.
    """

    def __init__(self, database: Engine) -> None:
        self._database = database
        self.running: dict[str, Job] = {}

    def add(
        self,
        request: Mapping[str, Any],
        *,
        priority: int = 0,
        idempotency_key: str | None = None,
        owner: str = "",
        trace: str | None = None,
        max_queued: int,
        retry_after_seconds: int = 1,
    ) -> tuple[Job, bool]:
        """Queues a job.

        Args:
            request: The request, ready for JSON; `a`, `b` and `c` are matrix ids.
            priority: The higher one runs first.
            idempotency_key: Makes a repeated call of the owner's return the first job.
            owner: Name of the tenant to whom it belongs.
            trace: The `traceparent` of the request.
            max_queued: The most jobs that may wait.
            retry_after_seconds: When to ask again if the queue is full.

        Returns:
            The job, and whether this call made it.

        Raises:
            IdempotencyConflict: The key belongs to a job with another request.
            OperandNotFound: An operand does not exist (any more).
            QueueFull: `max_queued` jobs wait already.
            QuotaReached: As many of the owner's jobs wait as its key's quota allows.
        """
        row = {
            "id": uuid.uuid4().hex,
            "state": JobState.QUEUED,
            "priority": priority,
            "request": dict(request),
            "a": request["a"],
            "b": request["b"],
            "c": request.get("c"),
            "idempotency_key": idempotency_key and scope_key(owner, idempotency_key),
            "created_at": read_clock(),
            "owner": owner or None,
            "trace": trace,
        }
        with self._database.begin() as connection:
            lock_adding(connection)
            first = find_first(connection, request, owner, idempotency_key)
            if first is not None:
                return first, False
            hold_operands(connection, request)
            check_room(connection, max_queued, retry_after_seconds, self.running)
            check_quota(connection, owner, self.running)
            return add_job(connection, row), True

    def find_repeated(
        self, request: Mapping[str, Any], idempotency_key: str | None, owner: str = ""
    ) -> Job | None:
        """The job that the owner's earlier POST with the same key made, or None.

        Raises:
            IdempotencyConflict: That job has another request.
        """
        with reading(self._database) as connection:
            return find_first(connection, request, owner, idempotency_key)

    def get(self, job_id: str, owner: str | None = None) -> Job:
        """Reads a job.

        Args:
            job_id: Its id.
            owner: Whose it must be; None for anybody's.

        Raises:
            JobNotFound: There is no job of that id.
        """
        _expect_id(job_id)
        wanted = select(jobs).where(jobs.c.id == job_id, is_owned(jobs, owner))
        with reading(self._database) as connection:
            row = connection.execute(wanted).one_or_none()
        if row is None:
            raise JobNotFound(job_id)
        return self._show(read_job(row))

    def page(
        self,
        *,
        state: JobState | None = None,
        limit: int = 50,
        cursor: str | None = None,
        owner: str | None = None,
    ) -> tuple[tuple[Job, ...], str | None]:
        """Reads some jobs, newest first, as `read_page` does."""
        found, following = read_page(
            self._database, self.running, state=state, limit=limit, cursor=cursor, owner=owner
        )
        return tuple(self._show(job) for job in found), following

    def next_queued(self) -> Job | None:
        """The job to run next: the highest priority, then the oldest."""
        first = (
            select(jobs)
            .where(is_in_state(JobState.QUEUED, self.running))
            .order_by(jobs.c.priority.desc(), jobs.c.sequence)
            .limit(1)
        )
        with reading(self._database) as connection:
            row = connection.execute(first).one_or_none()
        return None if row is None else read_job(row)

    def count_by_state(self) -> dict[JobState, int]:
        """How many jobs there are in each state."""
        return count_by_state(self._database, tuple(self.running))

    def count_queued(self, owner: str) -> int:
        """How many jobs of an owner wait."""
        with reading(self._database) as connection:
            return count_queued(connection, owner, self.running)

    def find_newest(self) -> int:
        """The highest sequence number so far; 0 if there is no job."""
        with reading(self._database) as connection:
            return connection.scalar(select(func.max(jobs.c.sequence))) or 0

    def keep_run(self, job: Job) -> Job | None:
        """Writes that a job runs, and how far it has come; a power cut may undo it.

        Returns:
            The job; None when it has ended, or was cancelled before it began.
        """
        with unsynced(self._database) as connection:
            return update_job(connection, job.id, UNFINISHED, describe_run(job))

    def fail(self, job: Job, kind: str, message: str) -> Job | None:
        """Unfinished → failed. None when the job has ended before."""
        with self._database.begin() as connection:
            return fail_job(connection, job, kind, message)

    def cancel(self, job: Job) -> Job | None:
        """Unfinished → cancelled. None when the job has ended before."""
        with self._database.begin() as connection:
            return cancel_job(connection, job)

    def release(self, job: Job) -> Job | None:
        """Unfinished → queued, as if the try had never begun: the service stops before the job.

        A job whose cancellation was requested is cancelled.

        Returns:
            The job as it is now; None when it had ended before.
        """
        with self._database.begin() as connection:
            return self._give_up(release_job(connection, job))

    def request_cancel(self, job_id: str, owner: str | None = None) -> Job:
        """Cancels a queued job at once and marks a running one; a cancelled job stays as it is.

        Args:
            job_id: The job.
            owner: Whose it must be; None for anybody's.

        Raises:
            JobNotFound: There is no job of that id.
            JobFinished: The job has succeeded or failed already.
        """
        _expect_id(job_id)
        self.get(job_id, owner)  # an owner never changes
        with self._database.begin() as connection:
            lock_job(connection, job_id)  # from here on its run cannot give it up
            changes = self._describe_cancel(job_id)
            changed = update_job(connection, job_id, UNFINISHED, changes)
        job = changed or self.get(job_id)
        if job.state in (JobState.SUCCEEDED, JobState.FAILED):
            raise JobFinished(job_id, job.state)
        return job

    def requeue_interrupted(self, max_attempts: int) -> tuple[Job, ...]:
        """Settle the jobs that ran when the service ended; called once, before any job starts.

        A job goes back to the queue; if its tries are used up it fails, and if its cancellation
        was requested it is cancelled, even if its row says that it waits.

        Returns:
            The jobs as they are now.
        """
        with self._database.begin() as connection:
            found = select(jobs.c.id).where(is_interrupted())
            settled = [
                settle_job(connection, job_id, max_attempts)
                for job_id in connection.scalars(found).all()
            ]
        return tuple(job for job in settled if job is not None)

    def settle(self, job: Job, max_attempts: int) -> Job | None:
        """Settle one job whose run broke off, as `requeue_interrupted` does.

        Returns:
            The job as it is now; None when it had ended before.
        """
        with self._database.begin() as connection:
            update_job(connection, job.id, UNFINISHED, describe_run(job))
            return self._give_up(settle_job(connection, job.id, max_attempts))

    def expire(self, ttl_seconds: float, *, start: float, most: int) -> int:
        """Forgets finished jobs, as `forget_finished` does; returns how many."""
        return forget_finished(self._database, ttl_seconds, start=start, most=most)

    def _show(self, row: Job) -> Job:
        running = self.running.get(row.id)
        return row if running is None else running.show_running(row)

    def _describe_cancel(self, job_id: str) -> dict[str, Any]:
        """What a cancellation changes in a job's row, which must be locked."""
        running = self.running.get(job_id)
        if running is not None and running.state is JobState.RUNNING:
            return describe_run(running) | {"cancel_requested": True}
        queued = jobs.c.state == JobState.QUEUED
        return {
            "state": case((queued, JobState.CANCELLED), else_=jobs.c.state),
            "finished_at": case((queued, read_clock()), else_=jobs.c.finished_at),
            "cancel_requested": True,
        }

    def _give_up(self, job: Job | None) -> Job | None:
        """A run gives up its job, whose row is locked: who cancels it next finds it so."""
        if job is not None and job.id in self.running:
            self.running[job.id] = job
        return job


def _expect_id(job_id: str) -> None:
    # PostgreSQL refuses a NUL in a string; no id has anything but letters and digits.
    if not (job_id.isascii() and job_id.isalnum()):
        raise JobNotFound(job_id)
