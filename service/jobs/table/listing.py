"""Jobs are read: by their ids, page by page, and counted."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, func, select

from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import CursorUnknown
from wavetrim.service.jobs.errors import JobNotFound
from wavetrim.service.jobs.job import UNFINISHED, Job, JobState
from wavetrim.service.jobs.table.rows import is_in_state, read_job
from wavetrim.service.storage.database.database import reading, split
from wavetrim.service.storage.database.tables import is_owned, job_labels, jobs

_MARK: Final = r"before:([0-9a-f]{32})"
"""A cursor: an id, as a number would tell how many jobs others have posted."""


def find_jobs(connection: Connection, ids: Collection[str]) -> dict[str, Job]:
    """The jobs that exist, by their ids; the oldest first."""
    wanted = select(jobs).order_by(jobs.c.sequence)
    found = [
        read_job(row)
        for some in split(sorted(ids))
        for row in connection.execute(wanted.where(jobs.c.id.in_(some)))
    ]
    return {job.id: job for job in found}


class JobReader:
    """Reads jobs. Thread-safe: each call is one transaction.

    Args:
        database: Has the rows.

    Attributes:
        running: The jobs that run, by their ids, as their runs know them: newer than their rows.
            One that is queued here has not begun its first try, or its run gives it up and ends.
    """

    def __init__(self, database: Engine) -> None:
        self._database = database
        self.running: dict[str, Job] = {}

    def get(self, job_id: str, owner: str | None = None) -> Job:
        """Reads a job.

        Args:
            job_id: Its id.
            owner: Whose it must be; None for anybody's.

        Raises:
            JobNotFound: There is no job of that id.
        """
        job = self.find([job_id], owner).get(job_id)
        if job is None:
            raise JobNotFound(job_id)
        return job

    def find(self, ids: Collection[str], owner: str | None = None) -> dict[str, Job]:
        """The jobs that exist and belong to an owner, by their ids; the oldest first.

        Args:
            ids: Their ids.
            owner: Whose they must be; None for anybody's.
        """
        # PostgreSQL refuses a NUL in a string; no id has anything but letters and digits.
        possible = [one for one in ids if one.isascii() and one.isalnum()]
        with reading(self._database) as connection:
            found = find_jobs(connection, possible)
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
        """Reads some jobs, newest first.

        Args:
            state: Only jobs in this state.
            labels: Only jobs that have all of these.
            limit: The most jobs to return.
            cursor: Where an earlier page ended.
            owner: Whose they are; None for everybody's.

        Returns:
            The jobs, and the cursor of the next page (None after the last one). Jobs added between
            two calls do not shift a page.

        Raises:
            CursorUnknown: The cursor was not made by this method, or its job is forgotten.
        """
        wanted = select(jobs).where(is_owned(jobs, owner), *_have(labels))
        wanted = wanted.order_by(jobs.c.sequence.desc()).limit(limit + 1)
        if state is not None:
            wanted = wanted.where(is_in_state(state, self.running))
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

    def list_unfinished(self) -> list[Job]:
        """All jobs that have not ended, while none runs, the oldest first."""
        with reading(self._database) as connection:
            return list_unfinished(connection)

    def list_labelled(self, labels: Sequence[str], owner: str) -> list[str]:
        """The ids of an owner's unfinished jobs that have all of some labels, the newest first."""
        unfinished = jobs.c.state.in_(UNFINISHED), is_owned(jobs, owner)
        wanted = select(jobs.c.id).where(*unfinished, *_have(labels))
        with reading(self._database) as connection:
            return list(connection.scalars(wanted.order_by(jobs.c.sequence.desc())))

    def count_by_state(self) -> dict[JobState, int]:
        """How many jobs there are in each state."""
        running = tuple(self.running)
        counted = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        behind = select(func.count()).where(jobs.c.id.in_(running), jobs.c.state == JobState.QUEUED)
        with reading(self._database) as connection:
            found = {JobState(state): count for state, count in connection.execute(counted)}
            begun = (connection.scalar(behind) or 0) if running else 0
        counts = {state: found.get(state, 0) for state in JobState}
        counts[JobState.QUEUED] -= begun
        counts[JobState.RUNNING] += begun
        return counts

    def _show(self, row: Job) -> Job:
        running = self.running.get(row.id)
        return row if running is None else running.show_running(row)


def list_unfinished(connection: Connection) -> list[Job]:
    """All jobs that have not ended, as their rows have them, the oldest first."""
    wanted = select(jobs).where(jobs.c.state.in_(UNFINISHED)).order_by(jobs.c.sequence)
    return [read_job(row) for row in connection.execute(wanted)]


def _have(labels: Sequence[str]) -> list[ColumnElement[bool]]:
    """Selects the rows of jobs that have all of some labels."""
    named = select(job_labels.c.job)
    return [jobs.c.id.in_(named.where(job_labels.c.label == label)) for label in labels]
