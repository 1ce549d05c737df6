"""Files of matrices that the database does not know: set aside at a start, and adopted later.

A start removes only what is certainly unfinished; all else goes to the folder of lost files.
"""

import logging
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, delete, insert, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.files import compute_crc32, open_regular
from wavetrim.service.storage.errors import NpyError
from wavetrim.service.storage.folder.data_folder import join
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES, Layout, parse_header

LOST_FOLDER: Final = "lost"
"""Name of the folder of lost files, in the data folder."""

_MATRIX_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")

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


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was done.

    Attributes:
        identity: The id that database and folder have now.
        adopted: How many files were new to the database.
        restored: How many lost files the database knew.
        refused: Files that stay as they are, each with the reason.
        missing: Ids that the database knows and that have no file.
    """

    identity: str
    adopted: int
    restored: int
    refused: tuple[tuple[Path, str], ...]
    missing: tuple[str, ...]


class _Refused(Exception):
    """A file that cannot be taken in; the message says why."""


def adopt(database: Engine, data_dir: Path, matrix_dir: Path) -> Adoption:
    """Registers the .npy files of a data folder, and those in its folder of lost files.

    A file is taken in if its name is an id and its header and length are right; one that the
    database knows must also have the stored CRC-32, and is then no longer damaged. Nothing is
    removed or overwritten. A file's age counts from its adoption, so that none is too old at once.

    Args:
        database: The database in use.
        data_dir: The data folder; the caller has claimed it.
        matrix_dir: The folder of the matrices.
    """
    matrix_dir.mkdir(parents=True, exist_ok=True)
    adopted = restored = 0
    refused: list[tuple[Path, str]] = []
    files = [*sorted(matrix_dir.glob("*.npy")), *sorted((data_dir / LOST_FOLDER).glob("*.npy"))]
    for path in files:
        target = matrix_dir / f"{path.name.partition('.')[0]}.npy"
        try:
            is_new = _take_in(database, path, target)
        except (_Refused, NpyError) as error:
            refused.append((path, str(error)))
        except OSError as error:
            refused.append((path, error.strerror or str(error)))
        else:
            adopted += is_new
            restored += not is_new and path != target
    with reading(database) as connection:
        known = sorted(connection.scalars(select(matrices.c.id)))
    missing = tuple(name for name in known if not (matrix_dir / f"{name}.npy").exists())
    return Adoption(join(database, data_dir), adopted, restored, tuple(refused), missing)


def _take_in(database: Engine, path: Path, target: Path) -> bool:
    """Take one file in; returns whether it was new to the database."""
    if not _MATRIX_ID.fullmatch(target.stem):
        raise _Refused("its name is no id of a matrix")
    if path != target and (target.exists() or target.is_symlink()):
        raise _Refused(f"{target} is there already")
    with reading(database) as connection:
        wanted = select(matrices).where(matrices.c.id == target.stem)
        row = connection.execute(wanted).first()
    if row is not None and path == target:
        return False
    header, crc32 = _read_file(path)
    if row is not None:
        if header.file_bytes != row.size_bytes or row.crc32 not in (None, crc32):
            raise _Refused("the database knows another matrix of this id")
        with database.begin() as connection:
            if row.crc32 is not None:  # the file was checked: the matrix is not damaged any more
                change = update(matrices).where(matrices.c.id == target.stem)
                connection.execute(change.values(damaged_at=None))
            path.rename(target)
        return False
    described = asdict(header) | {
        "id": target.stem, "size_bytes": header.file_bytes, "created_at": read_clock(),
        "crc32": crc32, "place": "disk",
    }  # fmt: skip
    # First the file, as a row must always have one.
    path.rename(target)
    with database.begin() as connection:
        connection.execute(insert(matrices).values(described))
    return True


def _read_file(path: Path) -> tuple[Layout, int]:
    """The header of a whole .npy file, and the file's CRC-32."""
    file = open_regular(path)
    try:
        header = parse_header(os.pread(file, MAX_HEADER_BYTES + 12, 0))
        if header is None:
            raise _Refused("it ends inside its header")
        crc32 = compute_crc32(file, header.file_bytes)
        if crc32 is None:
            length = os.fstat(file).st_size
            raise _Refused(f"it has {length} bytes; by its header it must be {header.file_bytes}")
        return header, crc32
    finally:
        os.close(file)
