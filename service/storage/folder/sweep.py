"""The sweep at a start: removes what an earlier run has left in the folder of the matrices."""

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, delete, or_, select

from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.tables import UNFINISHED, jobs, matrices
from wavetrim.service.storage.folder.lost import set_aside

logger = logging.getLogger(__name__)

TEMPORARY_PREFIX: Final = "temporary-"
"""Begin of ids of temporary matrices, which an earlier version made for products in one call."""


def sweep_folder(database: Engine, folder: Path, lost_dir: Path) -> None:
    """Removes what is certainly unfinished: partial and temporary files, and their rows.

    A matrix that the database does not know goes to `lost_dir`.
    """
    with database.begin() as connection:
        forgotten = _forget_temporary(connection)
        connection.execute(delete(matrices).where(matrices.c.place == "memory"))
        known = set(connection.scalars(select(matrices.c.id)))
    lost = 0
    for path in list(folder.iterdir()):
        temporary = path.stem in forgotten or path.name.startswith(TEMPORARY_PREFIX)
        if path.suffix == ".part" or (path.suffix == ".npy" and temporary):
            path.unlink(missing_ok=True)
        elif path.suffix == ".npy" and path.stem not in known:
            lost += set_aside(path, lost_dir) is not None
    if lost:
        logger.warning(
            "%d matrices that the database does not know were moved to %s; "
            "`wavetrim adopt` takes them in again",
            lost,
            lost_dir,
        )


def _forget_temporary(connection: Connection) -> set[str]:
    """Cancels the jobs of temporary matrices, and removes these matrices' rows.

    This reads all jobs, so it is done only if there are such matrices.

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
        .where(temporary, jobs.c.state.in_(UNFINISHED))
        .values(state="cancelled", finished_at=read_clock())
    )
    removed = delete(matrices).where(or_(named, matrices.c.id.in_(left)))
    return set(connection.scalars(removed.returning(matrices.c.id)))
