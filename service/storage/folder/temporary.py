"""Temporary matrices: those of a call that waited for its product, in an earlier version."""

import time
from typing import Final

from sqlalchemy import Connection, delete, or_, select

from wavetrim.service.storage.database.tables import jobs, matrices

TEMPORARY_PREFIX: Final = "temporary-"
"""How the ids of matrices begin that the next start removes."""

_UNFINISHED: Final = ("queued", "running")


def forget_temporary(connection: Connection) -> set[str]:
    """Cancels the jobs of temporary matrices, and removes these matrices' rows.

    All jobs are looked through for them, so only where there are such matrices.

    Returns:
        The ids that were removed.
    """
    named = matrices.c.id.startswith(TEMPORARY_PREFIX)
    if connection.execute(select(matrices.c.id).where(named).limit(1)).first() is None:
        return set()
    temporary = jobs.c.a.startswith(TEMPORARY_PREFIX)
    results = connection.scalars(select(jobs.c.result).where(temporary, jobs.c.result.is_not(None)))
    left = list(results)
    connection.execute(
        jobs.update()
        .where(temporary, jobs.c.state.in_(_UNFINISHED))
        .values(state="cancelled", finished_at=time.time())
    )
    removed = delete(matrices).where(or_(named, matrices.c.id.in_(left)))
    return set(connection.scalars(removed.returning(matrices.c.id)))
