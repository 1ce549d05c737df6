"""Many jobs at once: a page of them, how many are in each state, and which are too old."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import Engine, delete, func, select

from wavetrim.service.clock import read_clock
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import CursorUnknown
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.table.rows import is_in_state, read_job
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.ownership import is_owned
from wavetrim.service.storage.database.tables import jobs

_EXPIRED_BATCH: Final = 500
"""Jobs that are removed in one transaction; chosen, so that other writers need not wait long."""

_FINISHED: Final = jobs.c.state.in_([state for state in JobState if state.finished])


def read_page(
    database: Engine,
    running: Collection[str],
    *,
    state: JobState | None,
    limit: int,
    cursor: str | None,
    owner: str | None,
) -> tuple[list[Job], str | None]:
    """Reads some rows of jobs, newest first.

    Args:
        database: The database.
        running: Ids of the jobs that run, whatever their rows say.
        state: Only jobs in this state.
        limit: The most jobs to return.
        cursor: Where an earlier page ended.
        owner: Whose they are; None for everybody's.

    Returns:
        The jobs, and the cursor of the next page (None after the last one). Jobs added between two
        calls do not shift a page.

    Raises:
        CursorUnknown: The cursor was not made by this function, or its job is forgotten.
    """
    wanted = select(jobs).where(is_owned(jobs, owner))
    wanted = wanted.order_by(jobs.c.sequence.desc()).limit(limit + 1)
    if state is not None:
        wanted = wanted.where(is_in_state(state, running))
    with reading(database) as connection:
        if cursor is not None:
            last = select(jobs.c.sequence).where(
                jobs.c.id == decode_cursor(cursor), is_owned(jobs, owner)
            )
            sequence = connection.scalar(last)
            if sequence is None:
                raise CursorUnknown("cursor", cursor, "that of a job which is still remembered")
            wanted = wanted.where(jobs.c.sequence < sequence)
        found = [read_job(row) for row in connection.execute(wanted)]
    shown = found[:limit]
    return shown, encode_cursor(shown[-1].id) if len(found) > limit else None


def count_by_state(database: Engine, running: Collection[str]) -> dict[JobState, int]:
    """How many jobs there are in each state; running ones count so, whatever their rows say."""
    counted = select(jobs.c.state, func.count()).group_by(jobs.c.state)
    behind = select(func.count()).where(
        jobs.c.id.in_(tuple(running)), jobs.c.state == JobState.QUEUED
    )
    with reading(database) as connection:
        found = {JobState(state): count for state, count in connection.execute(counted)}
        begun = connection.scalar(behind) if running else 0
    counts = {state: found.get(state, 0) for state in JobState}
    counts[JobState.QUEUED] -= begun or 0
    counts[JobState.RUNNING] += begun or 0
    return counts


def forget_finished(database: Engine, ttl_seconds: float, *, start: float, most: int) -> int:
    """Forgets finished jobs; their products stay.

    Args:
        database: The database.
        ttl_seconds: Jobs that ended this long ago are forgotten; 0 for none.
        start: The time before which no age is counted.
        most: Jobs beyond this number are forgotten, the oldest first.

    Returns:
        How many were forgotten.
    """
    before = read_clock() - ttl_seconds
    if not ttl_seconds or start >= before:
        before = 0.0
    last_sequence = _find_last_beyond(database, most)
    forgotten = 0
    while count := _forget_batch(database, before, last_sequence):
        forgotten += count
    return forgotten


def _find_last_beyond(database: Engine, most: int) -> int:
    """The sequence number of the newest finished job beyond `most`; 0 if there is none."""
    newest = select(jobs.c.sequence).where(_FINISHED).order_by(jobs.c.sequence.desc())
    with reading(database) as connection:
        return connection.scalar(newest.offset(most).limit(1)) or 0


def _forget_batch(database: Engine, before: float, last_sequence: int) -> int:
    wanted = select(jobs.c.sequence).limit(_EXPIRED_BATCH)
    # Two queries, each answered by an index. Only a finished job has a `finished_at`.
    old = wanted.where(jobs.c.finished_at < before).order_by(jobs.c.finished_at)
    many = wanted.where(jobs.c.sequence <= last_sequence, _FINISHED).order_by(jobs.c.sequence)
    with reading(database) as connection:
        batch = [*connection.scalars(old)] or [*connection.scalars(many)]
    if batch:
        with database.begin() as connection:
            connection.execute(delete(jobs).where(jobs.c.sequence.in_(batch), _FINISHED))
    return len(batch)


def encode_cursor(job_id: str) -> str:
    """The cursor of the jobs that are older than this one.

    It holds no sequence number, which would tell how many jobs others have posted.
    """
    return encode_mark(f"before:{job_id}")


def decode_cursor(cursor: str) -> str:
    """The id that `encode_cursor` was given.

    Raises:
        CursorUnknown: The text was not made by `encode_cursor`.
    """
    return str(decode_mark(cursor, r"before:([0-9a-f]{32})")[1])
