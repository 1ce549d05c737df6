"""The jobs, kept in the database.

All rows are changed by one thread (`storage/database/shared_commits.py`), one change after the
other. So what a change has read stays true until it is committed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, delete, select
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.table.changes import Endings, add_jobs, find_first
from wavetrim.service.jobs.table.rows import JobReader, find_jobs, list_unfinished, write_job
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.shared_commits import CommitLost, SharedCommits, Together
from wavetrim.service.storage.database.tables import jobs
from wavetrim.service.threads import await_end, run_to_end

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_PAUSE_SECONDS: Final = 1.0
"""Between two tries to reach a database that does not answer."""

_BATCH: Final = 500
"""Jobs that are forgotten in one transaction; chosen, so that other writers need not wait long."""

_FINISHED: Final = jobs.c.state.in_([state for state in JobState if state.finished])

_Post = tuple[Sequence[Job], str | None, str]
"""A POST's jobs, its Idempotency-Key, and its owner."""


class JobStore(JobReader):
    """Adds, reads and changes jobs. Thread-safe: each call is one transaction.

    Attributes:
        endings: Ends them, and knows which wait for the results of others.
    """

    def __init__(self, database: Engine, commits: SharedCommits | None = None) -> None:
        super().__init__(database)
        self._commits = commits or SharedCommits(database)
        self.endings = Endings()

    async def add(
        self,
        new: Sequence[Job],
        *,
        idempotency_key: str | None = None,
        owner: str = "",
    ) -> tuple[list[Job], bool]:
        """Queues jobs, all or none.

        Args:
            new: As `make_job` makes them, at least one.
            idempotency_key: Makes a repeated call of the owner's return the first jobs.
            owner: Whose they are.

        Returns:
            The jobs, and whether this call made them.

        Raises:
            FieldProblem: The key belongs to jobs with other requests.
            OperandNotFound: An operand does not exist (any more).
            OperandEnded: A job that was to make an operand has failed or was cancelled.
        """
        change = Together(self._add_posts, (new, idempotency_key, owner))
        try:
            return await await_end(self._commits.add(change))
        except CommitLost as lost:
            raise lost.cause from lost

    def _add_posts(
        self, connection: Connection, posts: Sequence[_Post]
    ) -> list[tuple[list[Job], bool]]:
        """Add the jobs of POSTs that are committed together."""
        firsts = [
            find_first(connection, [job.request for job in posted], owner, key)
            for posted, key, owner in posts
        ]
        pairs = [(posted, first) for (posted, _, _), first in zip(posts, firsts, strict=True)]
        new = [job for posted, first in pairs if not first for job in posted]
        added = iter(add_jobs(connection, new, self.endings))
        return [
            (first, False) if first else (list(islice(added, len(posted))), True)
            for posted, first in pairs
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

    def note_try(self, job: Job) -> Future[Job | None]:
        """Has a try of a job that has begun written; a power cut may undo it.

        Returns:
            The job; None when it has ended, or was cancelled before it began.
        """
        waiting = replace(job, state=JobState.QUEUED)  # as its row says until it has ended
        change = partial(write_job, job=waiting)
        return self._commits.add(change, durable=False)

    def end(self, ended: Job) -> Job | None:
        """Unfinished → failed or cancelled; None when the job has ended before."""
        return self._change(lambda connection: self.endings.end(connection, ended))

    def queue_again(self, job: Job, attempts: int) -> Job | None:
        """Running → queued, as its run broke off (`Endings.queue_again`); None when ended."""

        def change(connection: Connection) -> Job | None:
            changed = self.endings.queue_again(connection, job, attempts)
            self.running.pop(job.id, None)  # who cancels it next finds it so
            return changed

        return self._change(change)

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

        def cancel_each(connection: Connection) -> list[Job | None]:
            return [self._cancel(connection, job_id) for job_id in ids]

        return [job for job in self._change(cancel_each) if job is not None]

    def _cancel(self, connection: Connection, job_id: str) -> Job | None:
        if (running := self.running.get(job_id)) is not None:
            waiting = replace(running, state=JobState.QUEUED)
            marked = write_job(connection, waiting, cancel_requested=True)
            return marked and replace(running, cancel_requested=True)
        found = find_jobs(connection, [job_id]).get(job_id)
        return found and self.endings.end(connection, found.cancel())

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
            return write_job(connection, row, priority=priority)

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
            unfinished = list_unfinished(connection)
            for job in unfinished:
                self.endings.add(job.id, job.awaited)
            # An earlier version wrote that a job runs.
            settled = [
                self.endings.queue_again(connection, job, job.attempts)
                for job in unfinished
                if job.attempts or job.cancel_requested or job.state is JobState.RUNNING
            ]
            return tuple(job for job in settled if job is not None)

        return self._change(change)

    def expire(self, ttl_seconds: float, *, start: float, most: int) -> int:
        """Forgets finished jobs that are too old or too many; their products stay.

        Args:
            ttl_seconds: Jobs that ended this long ago are forgotten; 0 for none.
            start: The time before which no age is counted.
            most: Jobs beyond this number are forgotten, the oldest first.

        Returns:
            How many were forgotten.
        """
        before = read_clock() - ttl_seconds
        if not ttl_seconds or start >= before:
            before = 0.0
        newest = select(jobs.c.sequence).where(_FINISHED).order_by(jobs.c.sequence.desc())
        with reading(self._database) as connection:
            last_sequence = connection.scalar(newest.offset(most).limit(1)) or 0
        # Two statements, each answered by an index. Only a finished job has a `finished_at`.
        old = jobs.c.finished_at < before, jobs.c.finished_at
        many = jobs.c.sequence <= last_sequence, jobs.c.sequence
        return sum(self._forget(*those) for those in (old, many))

    def _forget(self, those: ColumnElement[bool], order: ColumnElement[Any]) -> int:
        """Forget finished jobs, some at a time; returns how many."""
        some = select(jobs.c.sequence).where(those, _FINISHED).order_by(order).limit(_BATCH)
        forgotten, count = 0, _BATCH
        while count == _BATCH:
            with self._database.begin() as connection:
                count = connection.execute(delete(jobs).where(jobs.c.sequence.in_(some))).rowcount
            self.ended.clear()
            forgotten += count
        return forgotten

    def _change(self, change: Callable[[Connection], R], *, durable: bool = True) -> R:
        """Change rows, and return when that is committed."""
        try:
            return self._commits.add(change, durable=durable).result()
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
