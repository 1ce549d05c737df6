"""The sweep at a start: removes what an earlier run has left in the folder of the matrices.

Files that the database does not know are moved aside to the folder of lost files, never removed.
"""

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, delete, select

from wavetrim.service.storage.database.tables import matrices

LOST_FOLDER: Final = "lost"
"""Name of the folder of lost files, in the data folder."""

logger = logging.getLogger(__name__)


def sweep_folder(database: Engine, folder: Path) -> None:
    """Removes what is certainly unfinished: partial files, and rows of matrices in memory.

    To be called while no other process uses the folder.

    Args:
        database: Knows the matrices.
        folder: Has their files; the folder of lost files is beside it.
    """
    with database.begin() as connection:
        connection.execute(delete(matrices).where(matrices.c.place == "memory"))
        known = set(connection.scalars(select(matrices.c.id)))
    lost = 0
    for path in list(folder.iterdir()):
        if path.suffix == ".part":
            path.unlink(missing_ok=True)
        elif path.suffix == ".npy" and path.stem not in known:
            lost += _set_aside(path, folder.parent / LOST_FOLDER)
    if lost:
        logger.warning(
            "%d matrices that the database does not know were moved to %s; "
            "`wavetrim adopt` takes them in again",
            lost,
            folder.parent / LOST_FOLDER,
        )


def count_lost_files(folder: Path) -> int:
    """How many files are in the folder of lost files beside the folder of the matrices."""
    return sum(1 for _ in (folder.parent / LOST_FOLDER).glob("*.npy"))


def _set_aside(path: Path, lost_dir: Path) -> bool:
    """Move a file into the folder of lost files, under a free name; returns whether it was."""
    lost_dir.mkdir(mode=0o700, exist_ok=True)
    target, number = lost_dir / path.name, 0
    while target.is_symlink() or target.exists():
        number += 1
        target = lost_dir / f"{path.stem}.{number}{path.suffix}"
    try:
        path.rename(target)
    except OSError as error:
        logger.warning("%s is not known, and cannot be moved: %s", path, error.strerror)
        return False
    return True
