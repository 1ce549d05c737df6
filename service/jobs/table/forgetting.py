"""Finished jobs are forgotten when they are too old or too many; their products stay."""

from typing import Final

from sqlalchemy import Engine, delete, select

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.job import JobState
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import jobs

_BATCH: Final = 500
"""Jobs that are removed in one transaction; chosen, so that other writers need not wait long."""

_FINISHED: Final = jobs.c.state.in_([state for state in JobState if state.finished])


def forget_finished(database: Engine, ttl_seconds: float, *, start: float, most: int) -> int:
    """Forgets finished jobs.

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
    wanted = select(jobs.c.sequence).limit(_BATCH)
    # Two queries, each answered by an index. Only a finished job has a `finished_at`.
    old = wanted.where(jobs.c.finished_at < before).order_by(jobs.c.finished_at)
    many = wanted.where(jobs.c.sequence <= last_sequence, _FINISHED).order_by(jobs.c.sequence)
    with reading(database) as connection:
        batch = [*connection.scalars(old)] or [*connection.scalars(many)]
    if batch:
        with database.begin() as connection:
            connection.execute(delete(jobs).where(jobs.c.sequence.in_(batch), _FINISHED))
    return len(batch)
