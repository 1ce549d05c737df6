"""Identity: a database and a data folder that belong together have the same id.

With the wrong database all matrices of a folder would seem to be unknown. So both have an id, made
once, and the service does not start when the two differ.
"""

import re
import uuid
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, insert, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.database import reading, write_back
from wavetrim.service.storage.database.tables import identity, matrices
from wavetrim.service.storage.disk.new_file import flush
from wavetrim.service.storage.errors import DataMismatch

FILE_NAME: Final = "identity"
"""The file in the data folder that holds its id."""

_ID: Final = re.compile(r"[0-9a-f]{32}")
_NO_ID: Final = "none"


def pair(database: Engine, data_dir: Path, matrix_dir: Path) -> None:
    """Makes sure that database and data folder belong together; gives new ones their id.

    Args:
        database: The database in use.
        data_dir: The data folder; the caller has claimed it.
        matrix_dir: The folder of the matrices.

    Raises:
        DataMismatch: They do not belong together.
    """
    of_database, of_folder = read_database_id(database), read_folder_id(data_dir)
    if of_database is not None and of_database == of_folder:
        return
    if of_folder is not None or not _fit(database, matrix_dir, has_id=of_database is not None):
        raise DataMismatch(
            database.url.set(drivername=database.dialect.name).render_as_string(),
            of_database or _NO_ID,
            str(data_dir),
            of_folder or _NO_ID,
        )
    join(database, data_dir)


def join(database: Engine, data_dir: Path) -> str:
    """Gives the data folder the database's id, and a database without one a new one.

    A database never gets the folder's id, which is another database's: both would then fit.

    Returns:
        The id that both have now.
    """
    known = read_database_id(database)
    if known is None:
        known = uuid.uuid4().hex
        with database.begin() as connection:
            connection.execute(insert(identity).values(id=known, created_at=read_clock()))
        # In the database's own file the id outlives the loss of the write-ahead log.
        write_back(database)
    _write_folder_id(data_dir, known)
    return known


def read_database_id(database: Engine) -> str | None:
    """The id of a database; None if it has none yet."""
    with reading(database) as connection:
        return connection.scalar(select(identity.c.id))


def read_folder_id(data_dir: Path) -> str | None:
    """The id of a data folder; None if it has none yet.

    Raises:
        DataMismatch: Its file holds something else.
    """
    try:
        text = (data_dir / FILE_NAME).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    if not _ID.fullmatch(text):
        raise DataMismatch("in use", "unread", str(data_dir), f"unreadable: {text[:40]!r}")
    return text


def read_start(database: Engine) -> float:
    """The time before which no age is counted: the first start, which may be an upgrade's."""
    with reading(database) as connection:
        return connection.scalar(select(identity.c.created_at)) or 0.0


def try_write(database: Engine) -> None:
    """Makes a small write, to find whether the database can be written to."""
    with database.begin() as connection:
        connection.execute(update(identity).values(written_at=read_clock()))


def _fit(database: Engine, matrix_dir: Path, *, has_id: bool) -> bool:
    """Whether a folder without an id may be the database's.

    It may if they have a matrix in common, or if no matrix can be lost: a database with an id has
    none, or neither has an id and the folder has none.
    """
    files = {path.stem for path in matrix_dir.glob("*.npy")} if matrix_dir.is_dir() else set()
    with reading(database) as connection:
        known = set(connection.scalars(select(matrices.c.id)))
    return bool(files & known) or not (known if has_id else files)


def _write_folder_id(data_dir: Path, folder_id: str) -> None:
    new = data_dir / f"{FILE_NAME}.part"
    new.write_text(f"{folder_id}\n")
    flush(new)
    new.replace(data_dir / FILE_NAME)
    flush(data_dir)
