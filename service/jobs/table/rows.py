"""Rows of the jobs table: made of requests, changed, and read as jobs, by ids or page by page.

A row says that its job is queued until that has ended; that it runs is known in memory only. A job
is changed only if its row says that it has not ended. Of two changes that both end a job the second
one so changes nothing, and is told so.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    bindparam,
    func,
    or_,
    select,
    update,
)

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.service.clock import read_clock
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import CursorUnknown
from wavetrim.service.jobs.errors import JobNotFound
from wavetrim.service.jobs.job import PROMISE, Job, JobState, Shape
from wavetrim.service.storage.database.database import reading, split
from wavetrim.service.storage.database.tables import UNFINISHED, is_owned, job_labels, jobs

_MARK: Final = r"before:([0-9a-f]{32})"
"""A cursor: an id, as a number would tell how many jobs others have posted."""

_MOST_ENDED: Final = 1000
"""Ended jobs that are kept in memory; chosen: some kilobytes each."""

_OPEN: Final = NO_OPTIONS.as_dict()

_COLUMNS: Final = tuple(column.name for column in jobs.c if column.name != "sequence")

_WRITTEN: Final = (
    "state", "progress", "attempts", "started_at", "finished_at", "plan", "timings",
    "verification", "error", "result",
)  # fmt: skip
"""Columns that the run of a job and its end change."""

# Built once, as building it takes as long as running it.
_CHANGED: Final = (
    update(jobs)
    .where(jobs.c.id == bindparam("job"), or_(*(jobs.c.state == state for state in UNFINISHED)))
    .values({name: bindparam(f"new_{name}", type_=jobs.c[name].type) for name in _WRITTEN})
)


def make_job(
    request: Mapping[str, Any],
    *,
    shape: Shape | None = None,
    owner: str = "",
    trace: str | None = None,
    idempotency_key: str | None = None,
) -> Job:
    """A new job, which has no row yet.

    In the request `a`, `b` and `c` are ids of matrices, or of jobs as {"job": id}; the shape is
    that of its result, and the key as it is stored.
    """
    operands: dict[str, Any] = {
        name: PROMISE + one["job"] if isinstance(one := request.get(name), Mapping) else one
        for name in ("a", "b", "c")
    }
    return Job(
        id=uuid.uuid4().hex, priority=request["priority"], request=dict(request), shape=shape,
        idempotency_key=idempotency_key, created_at=read_clock(), owner=owner, trace=trace,
        **operands,
    )  # fmt: skip


def make_row(job: Job) -> dict[str, Any]:
    """The row of a new job."""
    return {name: getattr(job, name) for name in _COLUMNS} | {"owner": job.owner or None}


def read_job(row: Row[Any]) -> Job:
    """The job of a row of the jobs table.

    Options that a stored request lacks, because an earlier version did not have them, are left
    open, as if it were posted now.
    """
    columns = dict(row._mapping)
    del columns["sequence"]
    columns["owner"] = columns["owner"] or ""
    columns["state"] = JobState(columns["state"])
    columns["request"] = _OPEN | columns["request"]
    if columns["shape"] is not None:
        columns["shape"] = tuple(columns["shape"])
    return Job(**columns)


def write_job(connection: Connection, job: Job, **others: Any) -> Job | None:
    """Write a job, and other columns, unless it has ended before; then this is None."""
    change = _CHANGED.values(**others).returning(jobs) if others else _CHANGED.returning(jobs)
    row = connection.execute(change, _name_values(job)).one_or_none()
    return None if row is None else read_job(row)


def write_all(connection: Connection, changed: Sequence[Job]) -> bool:
    """Write jobs, without reading their rows; returns whether none had ended before."""
    return connection.execute(_CHANGED, list(map(_name_values, changed))).rowcount == len(changed)


def _name_values(job: Job) -> dict[str, Any]:
    return {"job": job.id, **{f"new_{name}": getattr(job, name) for name in _WRITTEN}}


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

    def find(self, ids: Collection[str], owner: str | None = None) -> dict[str, Job]:
        """Those of some jobs that exist, by their ids; the oldest first."""
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

    def list_unfinished(self) -> list[Job]:
        """All jobs that have not ended, while none runs, the oldest first."""
        with reading(self._database) as connection:
            return list_unfinished(connection)

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

    def _show(self, row: Job) -> Job:
        running = self.running.get(row.id)
        if running is None or row.state.finished:
            return row
        return replace(running, cancel_requested=row.cancel_requested)


def list_unfinished(connection: Connection) -> list[Job]:
    """All jobs that have not ended, as their rows have them, the oldest first."""
    wanted = select(jobs).where(jobs.c.state.in_(UNFINISHED)).order_by(jobs.c.sequence)
    return [read_job(row) for row in connection.execute(wanted)]


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
