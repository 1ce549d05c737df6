"""Jobs are read, by their ids or page by page, counted, and forgotten when they are old."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Engine, delete, func, select

from wavetrim.kernels.last_used import LastUsed
from wavetrim.service.clock import read_clock
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import CursorUnknown
from wavetrim.service.jobs.errors import JobNotFound
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.table.rows import find_jobs, read_job
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import UNFINISHED, is_owned, job_labels, jobs

_MARK: Final = r"before:([0-9a-f]{32})"
"""A cursor: an id, as a number would tell how many jobs others have posted."""

_MOST_ENDED: Final = 1000
"""Ended jobs that are kept in memory; chosen: some kilobytes each."""


_BATCH: Final = 500
"""Jobs that are forgotten in one transaction; chosen, so that other writers need not wait long."""

_FINISHED: Final = jobs.c.state.in_([state for state in JobState if state.finished])


class JobReader:
    """Reads and forgets jobs. Thread-safe: each call is one transaction.

    Where a method takes an `owner`, others' jobs do not exist for it; None stands for everybody.

    Attributes:
        running: The jobs that run, by their ids, as their runs know them: newer than their rows.
        ended: The last jobs that have ended: whoever asks about one soon after needs no statement.
    """

    def __init__(self, database: Engine) -> None:
        self._database = database
        self.running: dict[str, Job] = {}
        self.ended = LastUsed[str, Job](_MOST_ENDED)

    def get(self, job_id: str, owner: str | None = None) -> Job:
        """A job by its id.

        Raises:
            JobNotFound: There is no job of that id.
        """
        if job := self.find([job_id], owner).get(job_id):
            return job
        raise JobNotFound(job_id)

    def find(self, ids: Collection[str] | None, owner: str | None = None) -> dict[str, Job]:
        """As `find_jobs`, some jobs by their ids, or all that have not ended."""
        if ids is not None:
            # PostgreSQL refuses a NUL in a string; no id has anything but letters and digits.
            ids = [one for one in ids if one.isascii() and one.isalnum()]
        with reading(self._database) as connection:
            found = find_jobs(connection, ids)
        return {
            job_id: self._show(job) for job_id, job in found.items() if owner in (None, job.owner)
        }

    def page(
        self,
        *,
        state: JobState | None = None,
        labels: Sequence[str] = (),
        limit: int = 50,
        cursor: str | None = None,
        owner: str | None = None,
    ) -> tuple[tuple[Job, ...], str | None]:
        """A page of jobs, the newest first.

        Args:
            state: Only jobs in this state.
            labels: Only jobs that have all of these.
            limit: The most jobs of a page.
            cursor: Where an earlier page ended.
            owner: Whose they are.

        Returns:
            The jobs, and the cursor of the next page (None after the last one). Jobs added between
            two calls do not shift a page.

        Raises:
            CursorUnknown: The cursor was not made by this method, or its job is forgotten.
        """
        wanted = select(jobs).where(is_owned(jobs, owner), *_have(labels))
        wanted = wanted.order_by(jobs.c.sequence.desc()).limit(limit + 1)
        if state is not None:
            wanted = wanted.where(_is_in(state, self.running))
        with reading(self._database) as connection:
            if cursor is not None:
                last = select(jobs.c.sequence).where(
                    jobs.c.id == decode_mark(cursor, _MARK)[1], is_owned(jobs, owner)
                )
                sequence = connection.scalar(last)
                if sequence is None:
                    limits = "that of a job which is still remembered"
                    raise CursorUnknown("cursor", cursor, limits)
                wanted = wanted.where(jobs.c.sequence < sequence)
            found = [read_job(row) for row in connection.execute(wanted)]
        shown = found[:limit]
        following = encode_mark(f"before:{shown[-1].id}") if len(found) > limit else None
        return tuple(map(self._show, shown)), following

    def list_labelled(self, labels: Sequence[str], owner: str) -> list[str]:
        """The ids of unfinished jobs that have all of some labels, the newest first."""
        unfinished = jobs.c.state.in_(UNFINISHED), is_owned(jobs, owner)
        wanted = select(jobs.c.id).where(*unfinished, *_have(labels))
        with reading(self._database) as connection:
            return list(connection.scalars(wanted.order_by(jobs.c.sequence.desc())))

    def count_by_state(self) -> dict[JobState, int]:
        """How many jobs there are in each state."""
        counted = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        begun = select(func.count()).where(_is_in(JobState.RUNNING, self.running))
        counts = dict.fromkeys(JobState, 0)
        with reading(self._database) as connection:
            counts |= {JobState(state): count for state, count in connection.execute(counted)}
            counts[JobState.RUNNING] = connection.scalar(begun) or 0
        counts[JobState.QUEUED] -= counts[JobState.RUNNING]
        return counts

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
        forgotten = 0
        while True:
            with reading(self._database) as connection:
                batch = list(connection.scalars(some))
            if not batch:
                return forgotten
            with self._database.begin() as connection:
                connection.execute(delete(jobs).where(jobs.c.sequence.in_(batch), _FINISHED))
            self.ended.clear()
            forgotten += len(batch)

    def _show(self, row: Job) -> Job:
        return row if row.state.finished else self.running.get(row.id, row)


def _have(labels: Sequence[str]) -> list[ColumnElement[bool]]:
    """Selects the rows of jobs that have all of some labels."""
    named = select(job_labels.c.job)
    return [jobs.c.id.in_(named.where(job_labels.c.label == label)) for label in labels]


def _is_in(state: JobState, running: Collection[str]) -> ColumnElement[bool]:
    """Selects the rows of jobs in a state, although those of running jobs say queued."""
    begun = jobs.c.id.in_(tuple(running))
    if state is JobState.RUNNING:
        return (jobs.c.state == JobState.QUEUED) & begun
    said = jobs.c.state == state
    return said & ~begun if state is JobState.QUEUED and running else said
