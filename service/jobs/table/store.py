"""The jobs, kept in the database.

All rows are changed by one thread (`storage/database/shared_commits.py`), one change after the
other. So what a change has read stays true until it is committed.

What waits for the result of a job is changed in the transaction in which that job ends: it gets the
result as its operand, or ends as well. So no row ever waits for a job that has ended.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, update
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import MOST_TRIES, PROMISE, Job, JobState
from wavetrim.service.jobs.table.reader import JobReader
from wavetrim.service.jobs.table.rows import (
    add_jobs,
    find_first,
    find_jobs,
    find_key,
    read_job,
    write_jobs,
)
from wavetrim.service.storage.database.database import reading, split
from wavetrim.service.storage.database.shared_commits import CommitLost, SharedCommits, Together
from wavetrim.service.storage.database.tables import jobs
from wavetrim.service.threads import await_end, run_to_end

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_PAUSE_SECONDS: Final = 1.0
"""Between two tries to reach a database that does not answer."""

_Post = tuple[Sequence[Job], str | None]
"""A POST's jobs, and its Idempotency-Key."""


class JobStore(JobReader):
    """Adds, reads and changes jobs. Thread-safe: each call is one transaction."""

    def __init__(self, database: Engine, commits: SharedCommits | None = None) -> None:
        super().__init__(database)
        self._commits = commits or SharedCommits(database)
        # By job, those that wait for its result. Rows say so, too; but to look there at each end
        # would cost a statement. One may be here that waits no more: its row decides.
        self._followers: dict[str, dict[str, None]] = {}

    async def add(
        self, new: Sequence[Job], idempotency_key: str | None = None
    ) -> tuple[list[Job], bool]:
        """Queues jobs, all or none.

        Args:
            new: Those of one owner, as `make_job` makes them, at least one.
            idempotency_key: Makes a repeated call of the owner's return the first jobs.

        Returns:
            The jobs, and whether this call made them.

        Raises:
            FieldProblem: The key belongs to jobs with other requests.
            OperandNotFound: An operand does not exist (any more).
            JobStateConflict: A job that was to make an operand has failed or was cancelled.
        """
        change = Together(self._add_posts, (new, idempotency_key))
        try:
            return await await_end(self._commits.add(change))
        except CommitLost as lost:
            raise lost.cause from lost

    def _add_posts(
        self, connection: Connection, posts: Sequence[_Post]
    ) -> list[tuple[list[Job], bool]]:
        """Add the jobs of POSTs that are committed together."""
        firsts = [
            find_first(connection, [job.request for job in posted], posted[0].owner, key)
            for posted, key in posts
        ]
        new, keys = list[Job](), list[str | None]()
        for (posted, key), first in zip(posts, firsts, strict=True):
            if not first:
                new += posted
                keys += [key and find_key(key, job.owner, n) for n, job in enumerate(posted)]
        added = add_jobs(connection, new, keys)
        self._note_followers(added)
        rest = iter(added)
        return [
            (first, False) if first else (list(islice(rest, len(posted))), True)
            for (posted, _), first in zip(posts, firsts, strict=True)
        ]

    def find_repeated(
        self, requests: Sequence[Mapping[str, Any]], idempotency_key: str | None, owner: str = ""
    ) -> list[Job]:
        """The jobs that the owner's earlier POST with the same key made; none without.

        Raises:
            FieldProblem: The key belongs to jobs with other requests.
        """
        with reading(self._database) as connection:
            return find_first(connection, requests, owner, idempotency_key)

    def note_try(self, job: Job) -> Future[bool]:
        """Has a try of a job that has begun written; a power cut may undo it.

        Returns:
            False when it has ended, or was cancelled before it began.
        """
        return self._commits.add(partial(write_jobs, changed=[job]), durable=False)

    def _note_followers(self, added: Sequence[Job]) -> None:
        for job in added:
            for awaited in job.awaited.values():
                self._followers.setdefault(awaited, {})[job.id] = None

    def take_followers(self, job_id: str) -> list[str]:
        """The jobs that have waited for a job, which has ended."""
        return list(self._followers.pop(job_id, ()))

    def succeed(self, connection: Connection, done: Sequence[Job]) -> Sequence[Job]:
        """Unfinished → succeeded, in the transaction that publishes the products: both or neither.

        Raises:
            JobStateConflict: One of the jobs has ended before.
        """
        ended = [job.succeed() for job in done]
        if not write_jobs(connection, ended):
            raise JobStateConflict(ended[0].id, "finished", "queued or running to succeed")
        for job in ended:
            for some in split(list(self._followers.get(job.id, ()))):
                for operand in (jobs.c.a, jobs.c.b, jobs.c.c):
                    waits = jobs.c.id.in_(some), operand == PROMISE + job.id
                    connection.execute(update(jobs).where(*waits).values({operand: job.result}))
        return ended

    def end(self, ended: Job) -> Job | None:
        """Unfinished → failed or cancelled; None when the job has ended before."""
        return self._change(lambda connection: self._end(connection, ended))

    def _end(self, connection: Connection, ended: Job) -> Job | None:
        others = {"cancel_requested": True} if ended.state is JobState.CANCELLED else {}
        if not write_jobs(connection, [ended], **others):
            return None
        self._end_followers(connection, ended)
        return ended

    def queue_again(self, job: Job, attempts: int) -> Job | None:
        """Running → queued, as after some tries, as its run broke off; None when ended.

        If it was to be cancelled, it is; if its tries are used up, it fails.
        """
        return self._change(lambda connection: self._queue_again(connection, job, attempts))

    def _queue_again(self, connection: Connection, job: Job, attempts: int) -> Job | None:
        self.running.pop(job.id, None)  # who cancels it next finds it so
        row = find_jobs(connection, [job.id]).get(job.id)
        if row is None:
            return None
        if row.cancel_requested:
            return self._end(connection, job.cancel())
        if attempts >= MOST_TRIES:
            message = "every try of the job was interrupted"
            return self._end(connection, job.fail("interrupted", message))
        waits = job.wait_again(attempts)
        return waits if write_jobs(connection, [waits]) else None

    def _end_followers(self, connection: Connection, ended: Job) -> None:
        """End all that wait for a job without a result, and what waits for these."""
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
            for some in split(list(self._followers.get(operand.id, ()))):
                waits = jobs.c.id.in_(some), jobs.c.state == JobState.QUEUED
                change = update(jobs).where(*waits).values(changes).returning(jobs)
                left += map(read_job, connection.execute(change).all())

    def request_cancel(self, job_id: str, owner: str | None = None) -> Job:
        """Cancels a queued job at once and marks a running one; a cancelled job stays as it is.

        Raises:
            JobNotFound: There is no job of that id.
            JobStateConflict: The job has succeeded or failed already.
        """
        self.get(job_id, owner)  # an owner never changes
        changed = self.cancel_all([job_id])
        job = changed[0] if changed else self.get(job_id)
        if job.state in (JobState.SUCCEEDED, JobState.FAILED):
            raise JobStateConflict(job_id, job.state, "queued or running to be cancelled")
        return job

    def cancel_all(self, ids: Sequence[str]) -> list[Job]:
        """Cancels jobs, as `request_cancel` does; returns those that had not ended."""
        changed = self._change(lambda connection: [self._cancel(connection, one) for one in ids])
        return [job for job in changed if job is not None]

    def _cancel(self, connection: Connection, job_id: str) -> Job | None:
        if (running := self.running.get(job_id)) is not None:
            marked = write_jobs(connection, [running], cancel_requested=True)
            return replace(running, cancel_requested=True) if marked else None
        found = find_jobs(connection, [job_id]).get(job_id)
        return found and self._end(connection, found.cancel())

    def change_priority(self, job_id: str, priority: int, owner: str | None = None) -> Job:
        """Gives a queued job another priority.

        Raises:
            JobNotFound: There is no job of that id.
            JobStateConflict: The job runs, or has ended.
        """
        self.get(job_id, owner)

        def change(connection: Connection) -> Job | None:
            row = find_jobs(connection, [job_id]).get(job_id)
            if row is None or job_id in self.running:
                return None
            changed = write_jobs(connection, [row], priority=priority)
            return replace(row, priority=priority) if changed else None

        job = self._change(change)
        if job is None:
            limit = "queued for its priority to be changed"
            raise JobStateConflict(job_id, self.get(job_id).state, limit)
        return job

    def requeue_interrupted(self) -> tuple[Job, ...]:
        """Settle the jobs that ran when the service ended; called once, before any job starts.

        A job goes back to the queue; if its tries are used up it fails, and if its cancellation
        was requested it is cancelled.

        Returns:
            The jobs as they are now.
        """

        def change(connection: Connection) -> tuple[Job, ...]:
            unfinished = list(find_jobs(connection, None).values())
            self._note_followers(unfinished)
            # An earlier version wrote that a job runs.
            settled = [
                self._queue_again(connection, job, job.attempts)
                for job in unfinished
                if job.attempts or job.cancel_requested or job.state is JobState.RUNNING
            ]
            return tuple(job for job in settled if job is not None)

        return self._change(change)

    def _change(self, change: Callable[[Connection], R]) -> R:
        """Change rows, and return when that is committed."""
        try:
            return self._commits.add(change).result()
        except CommitLost as lost:
            raise lost.cause from lost


async def insist(work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Do something with the database, again until that answers."""
    while True:
        try:
            return await run_to_end(work, *args, **named)
        except SQLAlchemyError:
            logger.exception("the database does not answer")
            await asyncio.sleep(_PAUSE_SECONDS)
