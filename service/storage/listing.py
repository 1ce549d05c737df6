"""Many matrices at once: a page of them, who uses them, and which of them are too old."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, delete, or_, select

from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.storage.database import reading
from wavetrim.service.storage.tables import jobs, matrices

_UNFINISHED: Final = ("queued", "running")
_BATCH: Final = 200
"""So many rows are looked at in one transaction: the database is free in between."""


def read_page(
    database: Engine, *, limit: int, cursor: str | None
) -> tuple[list[Row[Any]], dict[str, list[str]], str | None]:
    """Reads some rows of matrices, newest first.

    Args:
        database: The database.
        limit: The most rows.
        cursor: Where an earlier page ended.

    Returns:
        The rows, the unfinished jobs that use them, by id, and the cursor of the next page.
        Matrices stored between two calls never shift a page.

    Raises:
        CursorUnknown: The cursor was not made by this function.
    """
    order = matrices.c.created_at.desc(), matrices.c.id.desc()
    wanted = select(matrices).order_by(*order).limit(limit + 1)
    if cursor is not None:
        wanted = wanted.where(_is_older(*_decode_cursor(cursor)))
    with reading(database) as connection:
        found = list(connection.execute(wanted))
        shown = found[:limit]
        users = find_users(connection, [row.id for row in shown])
    last = shown[-1] if len(found) > limit else None
    return shown, users, None if last is None else _encode_cursor(last.created_at, last.id)


def find_users(connection: Connection, ids: Collection[str]) -> dict[str, list[str]]:
    """The unfinished jobs that name matrices as operands, by the matrices' ids, oldest first."""
    users: dict[str, list[str]] = defaultdict(list)
    named = select(jobs.c.id, jobs.c.a, jobs.c.b, jobs.c.c).where(
        jobs.c.state.in_(_UNFINISHED), _names(ids)
    )
    for job_id, *operands in connection.execute(named.order_by(jobs.c.sequence)):
        for matrix_id in set(operands) & set(ids):
            users[matrix_id].append(job_id)
    return users


def remove_unused(database: Engine, before: float) -> Iterator[list[str]]:
    """Removes the rows of matrices that nobody has used since a time, in batches.

    A matrix was used when it was stored, and by every job that named it or has made it.

    Args:
        database: The database.
        before: UTC seconds since the epoch.

    Yields:
        The ids of a batch that was removed.
    """
    newest_first = matrices.c.created_at.desc(), matrices.c.id.desc()
    place = (before, "")
    while True:
        wanted = select(matrices.c.created_at, matrices.c.id).where(_is_older(*place))
        with reading(database) as connection:
            batch = list(connection.execute(wanted.order_by(*newest_first).limit(_BATCH)))
        if not batch:
            return
        place = tuple(batch[-1])
        yield _remove_batch(database, [row.id for row in batch], before)


def _remove_batch(database: Engine, ids: list[str], before: float) -> list[str]:
    with database.begin() as connection:
        # The lock first: a job that is being added has its row when we have the lock.
        found = select(matrices.c.id).where(matrices.c.id.in_(ids)).with_for_update()
        there = set(connection.scalars(found))
        recent = or_(jobs.c.state.in_(_UNFINISHED), jobs.c.created_at >= before)
        named = select(jobs.c.a, jobs.c.b, jobs.c.c, jobs.c.result).where(
            recent, or_(_names(ids), jobs.c.result.in_(ids))
        )
        used = {name for row in connection.execute(named) for name in row}
        unused = sorted(there - used)
        if unused:
            connection.execute(delete(matrices).where(matrices.c.id.in_(unused)))
    return unused


def _names(ids: Collection[str]) -> ColumnElement[bool]:
    return or_(jobs.c.a.in_(ids), jobs.c.b.in_(ids), jobs.c.c.in_(ids))


def _is_older(created_at: float, matrix_id: str) -> ColumnElement[bool]:
    """Whether a row comes behind another one, newest first."""
    same_time = and_(matrices.c.created_at == created_at, matrices.c.id < matrix_id)
    return or_(matrices.c.created_at < created_at, same_time)


def _encode_cursor(created_at: float, matrix_id: str) -> str:
    return encode_mark(f"{created_at!r}/{matrix_id}")


def _decode_cursor(cursor: str) -> tuple[float, str]:
    match = decode_mark(cursor, r"(\d{1,12}\.\d{1,12})/([A-Za-z0-9_-]{1,40})")
    return float(match[1]), match[2]
