"""Jobs end: one succeeds, fails or is cancelled, or its run breaks off.

What waits for the result of a job is changed in the transaction in which that job ends: it gets the
result as its operand, or ends as well. So no row ever waits for a job that has ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import MOST_TRIES, PROMISE, Job, JobState
from wavetrim.service.jobs.table.rows import change_row, describe_job, read_job, write_all
from wavetrim.service.storage.database.database import split
from wavetrim.service.storage.database.tables import jobs


@dataclass(slots=True, eq=False)
class Success:
    """A job that succeeds.

    Attributes:
        job: The job as it succeeds (`Job.succeed`); when it has finished is known once it is
            written.
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

        Args:
            connection: The transaction.
            successes: The jobs.

        Raises:
            JobStateConflict: One of the jobs has ended before.
        """
        for one in successes:
            one.job = replace(one.job, finished_at=read_clock())
        ended = [one.job for one in successes]
        if not write_all(connection, ended):
            raise JobStateConflict(ended[0].id, "finished", "queued or running to succeed")
        for job in ended:
            for some in split(self.find(job.id)):
                for operand in (jobs.c.a, jobs.c.b, jobs.c.c):
                    waits = jobs.c.id.in_(some), operand == PROMISE + job.id
                    connection.execute(update(jobs).where(*waits).values({operand: job.result}))
        return [None] * len(successes)

    def fail(self, connection: Connection, job: Job, kind: str, message: str) -> Job | None:
        """Unfinished → failed; None when the job has ended before."""
        error = {"kind": kind, "message": message, "attempts": job.attempts}
        failed = replace(job, state=JobState.FAILED, error=error, finished_at=read_clock())
        changed = change_row(connection, job.id, describe_job(failed))
        return self._end_followers(connection, changed)

    def cancel(self, connection: Connection, job: Job) -> Job | None:
        """Unfinished → cancelled; None when the job has ended before."""
        cancelled = replace(job, state=JobState.CANCELLED, finished_at=read_clock())
        changes = describe_job(cancelled) | {"cancel_requested": True}
        return self._end_followers(connection, change_row(connection, job.id, changes))

    def mark_cancelled(
        self, connection: Connection, job_id: str, running: Job | None
    ) -> Job | None:
        """Cancel a job that is queued, or note in its row that it is to be; None when it has ended.

        Args:
            connection: The transaction.
            job_id: The job.
            running: The job as its run knows it; None if it does not run.
        """
        if running is None or running.state is not JobState.RUNNING:
            row = find_row(connection, job_id)
            if row is None:
                return None
            if row.state is JobState.QUEUED:
                return self.cancel(connection, row)
            running = row
        return change_row(connection, job_id, describe_job(running) | {"cancel_requested": True})

    def break_off(self, connection: Connection, job: Job, *, counts: bool) -> Job | None:
        """Queue a job again whose run broke off; if it was to be cancelled, it is.

        Args:
            connection: The transaction.
            job: The job, as its run knows it.
            counts: Whether that was a try: if the tries are used up, the job fails. If not, it is
                queued as if the try had never begun.

        Returns:
            The job as it is now; None when it has ended before.
        """
        row = find_row(connection, job.id)
        if row is None:
            return None
        if row.cancel_requested:
            return self.cancel(connection, job)
        if counts and job.attempts >= MOST_TRIES:
            message = "every try of the job was interrupted"
            return self.fail(connection, job, "interrupted", message)
        attempts = job.attempts if counts else job.attempts - 1
        queued = replace(
            job,
            state=JobState.QUEUED,
            attempts=attempts,
            started_at=job.started_at if attempts else None,
            progress=0.0,
            plan=None,
        )
        return change_row(connection, job.id, describe_job(queued))

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


def find_row(connection: Connection, job_id: str) -> Job | None:
    """A job as its row has it."""
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
    return None if row is None else read_job(row)
