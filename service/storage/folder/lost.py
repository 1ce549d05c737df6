"""Lost files: those that the database does not know are moved aside, never removed."""

import logging
from pathlib import Path
from typing import Final

LOST_FOLDER: Final = "lost"
"""Name of the folder of lost files, in the data folder."""

logger = logging.getLogger(__name__)


def set_aside(path: Path, lost_dir: Path) -> Path | None:
    """Moves a file into the folder of lost files, under a free name.

    To be called while no other process uses the folders.

    Returns:
        Its new path; None if it could not be moved, which is logged.
    """
    lost_dir.mkdir(mode=0o700, exist_ok=True)
    place, number = lost_dir / path.name, 0
    while place.is_symlink() or place.exists():
        number += 1
        place = lost_dir / f"{path.stem}.{number}{path.suffix}"
    try:
        path.rename(place)
    except OSError as error:
        logger.warning("%s is not known, and cannot be moved: %s", path, error.strerror)
        return None
    return place


def count_lost_files(lost_dir: Path) -> int:
    """How many files are in the folder of lost files."""
    return sum(1 for _ in lost_dir.glob("*.npy")) if lost_dir.is_dir() else 0
