"""What an earlier run has left in the folder of the matrices."""

import logging
from pathlib import Path

from sqlalchemy import Engine, delete, select

from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.folder.lost import set_aside
from wavetrim.service.storage.folder.temporary import TEMPORARY_PREFIX, forget_temporary

logger = logging.getLogger(__name__)


def sweep_folder(database: Engine, folder: Path, lost_dir: Path) -> None:
    """Removes what is proved to be unfinished: partial and temporary files, and their rows.

    A matrix that the database does not know goes to `lost_dir`.
    """
    with database.begin() as connection:
        forgotten = forget_temporary(connection)
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
