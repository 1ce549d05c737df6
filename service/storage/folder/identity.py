"""Identity: a database and a data folder that belong together have the same id.

With the wrong database all matrices of a folder would seem to be unknown. So both have an id, made
once, and the service does not start when the two differ.
"""

import uuid
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, insert, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import identity, matrices
from wavetrim.service.storage.disk.files import flush
from wavetrim.service.storage.errors import DataMismatch

FILE_NAME: Final = "identity"
"""The file in the data folder that holds its id."""


def pair(database: Engine, data_dir: Path) -> None:
    """Makes sure that database and data folder belong together; gives new ones their id.

    A folder without an id is new, unless the database has an id and matrices: then the folder of
    these is another one, or not mounted.

    Args:
        database: The database in use.
        data_dir: The data folder; the caller has claimed it.

    Raises:
        DataMismatch: They do not belong together.
    """
    of_database, of_folder = read_database_id(database), read_folder_id(data_dir)
    is_new = of_folder is None and (of_database is None or not _has_matrices(database))
    if is_new:
        join(database, data_dir)
    elif of_database != of_folder:
        shown = database.url.set(drivername=database.dialect.name).render_as_string()
        raise DataMismatch(shown, of_database, data_dir, of_folder)


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
    new = data_dir / f"{FILE_NAME}.part"
    new.write_text(f"{known}\n")
    flush(new)
    new.replace(data_dir / FILE_NAME)
    flush(data_dir)
    return known


def read_database_id(database: Engine) -> str | None:
    """The id of a database; None if it has none yet."""
    with reading(database) as connection:
        return connection.scalar(select(identity.c.id))


def read_folder_id(data_dir: Path) -> str | None:
    """The id of a data folder; None if it has none yet."""
    try:
        return (data_dir / FILE_NAME).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None


def read_start(database: Engine) -> float:
    """The time before which no age is counted: the first start, which may be an upgrade's."""
    with reading(database) as connection:
        return connection.scalar(select(identity.c.created_at)) or 0.0


def try_write(database: Engine) -> None:
    """Makes a small write, to find whether the database can be written to."""
    with database.begin() as connection:
        connection.execute(update(identity).values(written_at=read_clock()))


def _has_matrices(database: Engine) -> bool:
    with reading(database) as connection:
        return connection.execute(select(matrices.c.id).limit(1)).first() is not None
