"""The data folder belongs to one service at a time, to its user alone, and to one database.

With the wrong database all matrices of a folder would seem to be unknown. So both have an id, made
once, and the service does not start when the two differ.
"""

import logging
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, insert, select, update

from wavetrim.service.clock import read_clock
from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import identity, matrices
from wavetrim.service.storage.disk.files import flush
from wavetrim.service.storage.errors import DataMismatch
from wavetrim.service.storage.lock_file import (
    LockTaken,
    describe_process,
    describe_service,
    take_lock,
)

logger = logging.getLogger(__name__)

_OTHERS: Final = 0o077
"""Permission bits of group and others."""

ID_FILE: Final = "identity"
"""The file in the data folder that holds its id."""

_FOLDERS: Final = ("matrices", "lost", "kernels", "profiles")


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Makes the folder if it is missing and keeps other services and other users out of it.

    Until the claim ends, the umask of this process and its children is 077: files of SQLite,
    compilers and the engine are for this user alone. The claim ends with the process, however that
    ends.

    Raises:
        SettingRefused: Another service has the folder, or it cannot be written to.
    """
    with keep_private():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = take_lock(folder / "service.lock", describe_service(folder))
        except LockTaken as taken:
            limit = (
                f"a folder that no other running service uses, as {taken} does; "
                f"this is {describe_process()}"
            )
            raise SettingRefused("data_dir", str(folder), limit) from taken
        except OSError as error:
            limit = f"a folder that can be written to ({error.strerror})"
            raise SettingRefused("data_dir", str(folder), limit) from error
        try:
            close_to_others(folder)
            yield
        finally:
            os.close(file)


@contextmanager
def keep_private() -> Iterator[None]:
    """Within the block, files that this process makes are for its user alone."""
    umask = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(umask)


def close_to_others(folder: Path) -> None:
    """Takes the folder, and the service's folders in it, from group and others.

    Nobody reaches a file in a closed folder, whatever its own permissions are. Folders of another
    user, and one that all users share (sticky, such as /tmp), stay as they are; both are logged.
    """
    if folder.stat().st_mode & stat.S_ISVTX:
        logger.warning("%s is open to all users; give the service a folder of its own", folder)
    else:
        _take_from_others(folder)
    for name in _FOLDERS:
        _take_from_others(folder / name)


def _take_from_others(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s stays open to other users: %s", path, error.strerror)


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
    new = data_dir / f"{ID_FILE}.part"
    new.write_text(f"{known}\n")
    flush(new)
    new.replace(data_dir / ID_FILE)
    flush(data_dir)
    return known


def read_database_id(database: Engine) -> str | None:
    """The id of a database; None if it has none yet."""
    with reading(database) as connection:
        return connection.scalar(select(identity.c.id))


def read_folder_id(data_dir: Path) -> str | None:
    """The id of a data folder; None if it has none yet."""
    try:
        return (data_dir / ID_FILE).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None


def read_start(database: Engine) -> float:
    """The time before which no age is counted: the first start, which may be an upgrade's."""
    with reading(database) as connection:
        return connection.scalar(select(identity.c.created_at)) or 0.0


def try_write(connection: Connection) -> None:
    """Makes a small write, to find whether the database can be written to."""
    connection.execute(update(identity).values(written_at=read_clock()))


def _has_matrices(database: Engine) -> bool:
    with reading(database) as connection:
        return connection.execute(select(matrices.c.id).limit(1)).first() is not None
