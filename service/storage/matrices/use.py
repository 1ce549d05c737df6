"""Which jobs use matrices, and which matrices nobody has used for long enough."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    delete,
    func,
    or_,
    select,
    union,
)

from wavetrim.service.storage.database.database import reading, split
from wavetrim.service.storage.database.tables import UNFINISHED, is_owned, jobs, matrices
from wavetrim.service.storage.errors import MatrixInUse, MatrixNotFound
from wavetrim.service.storage.matrices.stored_bytes import StoredBytes


def remove_matrix(
    connection: Connection, *, matrix_id: str, owner: str | None
) -> Row[Any] | MatrixNotFound | MatrixInUse:
    """Removes a matrix that no unfinished job names as an operand.

    A refusal is returned, not raised: other changes in the transaction stay.

    Args:
        connection: The transaction.
        matrix_id: The matrix.
        owner: Whose it must be, and whose jobs may be named in a refusal; None for everybody's.

    Returns:
        What its row was, as `remove_rows`; or why it stays. Of other owners' jobs that says only
        that there are some.
    """
    wanted = matrices.c.id == matrix_id, is_owned(matrices, owner)
    if connection.execute(select(matrices.c.id).where(*wanted).with_for_update()).first() is None:
        return MatrixNotFound(matrix_id)
    everyones = find_users(connection, [matrix_id], None).get(matrix_id)
    if not everyones:
        return remove_rows(connection, [matrix_id])[0]
    own = find_users(connection, [matrix_id], owner).get(matrix_id, [])
    if len(own) < len(everyones):
        own.append("one of another owner" if own else "of another owner")
    return MatrixInUse(matrix_id, own)


def find_users(
    connection: Connection, ids: Collection[str], owner: str | None
) -> dict[str, list[str]]:
    """An owner's unfinished jobs that name matrices as operands, oldest first; None for all jobs.

    Returns:
        Their ids, by the matrices' ids.
    """
    users: dict[str, list[str]] = defaultdict(list)
    named = select(jobs.c.id, jobs.c.a, jobs.c.b, jobs.c.c).where(
        jobs.c.state.in_(UNFINISHED), _names(ids), is_owned(jobs, owner)
    )
    for job_id, *operands in connection.execute(named.order_by(jobs.c.sequence)):
        for matrix_id in set(operands) & set(ids):
            users[matrix_id].append(job_id)
    return users


def remove_unused(database: Engine, stored: StoredBytes, before: float) -> Iterator[list[str]]:
    """Removes the rows of matrices that nobody has used since a time, in batches.

    A matrix is used when it is stored, and by every job that names it or has made it.

    Args:
        database: The database.
        stored: Follows the removal.
        before: UTC seconds since the epoch.

    Yields:
        The ids of each batch that was removed.
    """
    with reading(database) as connection:
        # This comes first: each batch reads the jobs that were added after it.
        last = connection.scalar(select(func.max(jobs.c.sequence))) or 0
        unused = connection.scalars(_select_unused(before)).all()
    for batch in split(unused):
        with stored.removing() as rows, database.begin() as connection:
            # The lock comes first: a job that is being added has its row once we have the lock.
            found = select(matrices.c.id).where(matrices.c.id.in_(batch)).with_for_update()
            there = set(connection.scalars(found))
            later = or_(jobs.c.state.in_(UNFINISHED), jobs.c.sequence > last)
            named = select(jobs.c.a, jobs.c.b, jobs.c.c).where(later, _names(batch))
            used = {name for row in connection.execute(named) for name in row}
            rows.extend(remove_rows(connection, there - used))
        yield [row.id for row in rows]


def _select_unused(before: float) -> Select[Any]:
    """The matrices that are older than a time, and that no job has named or made since then."""
    recent = or_(jobs.c.state.in_(UNFINISHED), jobs.c.created_at >= before)
    columns = (jobs.c.a, jobs.c.b, jobs.c.c, jobs.c.result)
    used = union(*(select(column.label("id")).where(recent) for column in columns)).subquery()
    unused = matrices.c.created_at < before, used.c.id.is_(None)
    return select(matrices.c.id).outerjoin(used, used.c.id == matrices.c.id).where(*unused)


def remove_rows(connection: Connection, ids: Collection[str]) -> Sequence[Row[Any]]:
    """Removes rows of matrices; returns what they were: id, size_bytes, place and owner."""
    named = [matrices.c[name] for name in ("id", "size_bytes", "place", "owner")]
    return connection.execute(
        delete(matrices).where(matrices.c.id.in_(ids)).returning(*named)
    ).all()


def _names(ids: Collection[str]) -> ColumnElement[bool]:
    return or_(jobs.c.a.in_(ids), jobs.c.b.in_(ids), jobs.c.c.in_(ids))
