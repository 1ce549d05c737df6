"""Backup: copies all that is stored while the service runs.

First the database is copied, then the matrices in that copy. Matrices never change, so those of an
earlier backup are kept. Matrices that were deleted meanwhile are deleted from the copy, too. Until
its database is replaced, the folder is still the whole earlier backup.
"""

import os
import re
import shutil
import sqlite3
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine, create_engine, delete, inspect, select
from sqlalchemy.engine import Row
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.database import (
    copy_sqlite,
    find_reason,
    open_postgres,
    read_url,
)
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.disk.files import (
    PIECE_BYTES,
    NotRegular,
    flush,
    open_regular,
)
from wavetrim.service.storage.errors import DatabaseRefused
from wavetrim.service.storage.folder.data_folder import ID_FILE, read_folder_id

DATABASE_NAME: Final = "wavetrim.db"
"""Name of the database's copy, the same as in a data folder."""

_NEW_NAME: Final = "wavetrim.db.new"
_FILE: Final = re.compile(r"[A-Za-z0-9_-]{1,40}\.npy(\.part)?")


@dataclass(frozen=True, slots=True)
class Backup:
    """What was done.

    Attributes:
        copied: Matrices that were copied.
        kept: Matrices that an earlier backup had.
        removed: Files of an earlier backup whose matrices are gone.
        damaged: Ids of matrices that cannot be copied, each with the reason.
        has_database: Whether the database is in the folder; only SQLite's is.
    """

    copied: int
    kept: int
    removed: int
    damaged: tuple[tuple[str, str], ...]
    has_database: bool


def back_up(database_url: str, data_dir: Path, matrix_dir: Path, folder: Path) -> Backup:
    """Copies a data folder and its database into a folder.

    Args:
        database_url: The database in use.
        data_dir: The data folder.
        matrix_dir: The folder of the matrices.
        folder: The backup: new, empty, or an earlier one of the same service.

    Raises:
        SettingRefused: The folder cannot be a backup of this service.
        DatabaseRefused: The database cannot be read.
        OSError: A file cannot be copied.
    """
    url = read_url(database_url)
    _prepare(folder, data_dir)
    try:
        return _back_up(url, data_dir, matrix_dir, folder)
    except (SQLAlchemyError, sqlite3.Error) as error:
        reason = find_reason(error)
        raise DatabaseRefused(url.render_as_string(hide_password=True), reason) from error


def _back_up(url: URL, data_dir: Path, matrix_dir: Path, folder: Path) -> Backup:
    new = folder / _NEW_NAME
    is_sqlite = url.get_backend_name() == "sqlite"
    with ExitStack() as stack:
        if is_sqlite:
            source = Path(str(url.database))
            if not source.exists():
                raise SettingRefused("database_url", str(source), "the file of a database")
            copy_sqlite(source, new)
            live, copy = (create_engine(f"sqlite+pysqlite:///{path}") for path in (source, new))
        else:
            live = copy = open_postgres(url)
        stack.callback(live.dispose)
        stack.callback(copy.dispose)
        copied, kept, damaged, known = _copy_matrices(copy, live, matrix_dir, folder)
    if is_sqlite:
        flush(new)
        new.replace(folder / DATABASE_NAME)
        flush(folder)
    removed = _remove_unknown(folder / "matrices", known)
    profiles = data_dir / "profiles"
    if profiles.is_dir():
        shutil.copytree(profiles, folder / "profiles", dirs_exist_ok=True)
    return Backup(copied, kept, removed, damaged, has_database=is_sqlite)


def _prepare(folder: Path, data_dir: Path) -> None:
    """Make the folder, and make sure that it is not another service's."""
    identity = read_folder_id(data_dir)
    if identity is None:
        raise SettingRefused("data_dir", str(data_dir), "the folder of a service that has run")
    if folder.resolve().is_relative_to(data_dir.resolve()):
        raise SettingRefused("folder", str(folder), f"outside of the data folder {data_dir}")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    limit = "new, empty, or an earlier backup of the same service"
    found = read_folder_id(folder)
    if found is None and any(folder.iterdir()):
        raise SettingRefused("folder", str(folder), limit)
    if found not in (None, identity):
        raise SettingRefused("folder", f"{folder} (of the service {found})", limit)
    (folder / "matrices").mkdir(exist_ok=True, mode=0o700)
    shutil.copyfile(data_dir / ID_FILE, folder / ID_FILE)
    flush(folder / ID_FILE)


def _copy_matrices(
    copy: Engine, live: Engine, matrix_dir: Path, folder: Path
) -> tuple[int, int, tuple[tuple[str, str], ...], set[str]]:
    """Copy the files of all rows; returns the counts of new and old ones, the damaged, all ids."""
    copied = kept = 0
    damaged: list[tuple[str, str]] = []
    known: set[str] = set()
    for row in _list_rows(copy):
        target = folder / "matrices" / f"{row.id}.npy"
        if target.exists() and target.stat().st_size == row.size_bytes:
            kept += 1
        elif (reason := _copy_matrix(matrix_dir / target.name, target, row)) is None:
            copied += 1
        elif _is_known(live, row.id):
            damaged.append((row.id, reason))
        else:  # deleted meanwhile
            if copy is not live:
                with copy.begin() as connection:
                    connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                    connection.execute(delete(matrices).where(matrices.c.id == row.id))
            continue
        known.add(row.id)
    flush(folder / "matrices")
    return copied, kept, tuple(damaged), known


def _list_rows(database: Engine) -> list[Row[tuple[str, int]]]:
    """Rows of matrices on disk; the tables may be of this version or an earlier one."""
    with database.connect() as connection:
        there = {column["name"] for column in inspect(connection).get_columns(matrices.name)}
        wanted = [matrices.c[name] for name in ("id", "size_bytes", "crc32") if name in there]
        asked = select(*wanted).order_by(matrices.c.id)
        if "place" in there:
            asked = asked.where(matrices.c.place.is_distinct_from("memory"))
        return list(connection.execute(asked))


def _is_known(database: Engine, matrix_id: str) -> bool:
    with database.connect() as connection:
        asked = select(matrices.c.id).where(matrices.c.id == matrix_id)
        return connection.scalar(asked) is not None


def _copy_matrix(source: Path, target: Path, row: Row[tuple[str, int]]) -> str | None:
    """Copy a matrix's file; returns why that failed, without leaving anything behind."""
    try:
        file = open_regular(source)
    except FileNotFoundError:
        return "its file is gone"
    except NotRegular as error:
        return str(error.strerror)
    new = target.with_suffix(".npy.part")
    crc32 = size_bytes = 0
    with os.fdopen(file, "rb", buffering=0) as reader, new.open("wb") as writer:
        while piece := reader.read(PIECE_BYTES):
            writer.write(piece)
            crc32, size_bytes = zlib.crc32(piece, crc32), size_bytes + len(piece)
        writer.flush()
        os.fsync(writer.fileno())
    if size_bytes != row.size_bytes or getattr(row, "crc32", None) not in (None, crc32):
        new.unlink()
        return "its file is not as it was stored"
    new.replace(target)
    return None


def _remove_unknown(folder: Path, known: set[str]) -> int:
    """Remove files of earlier backups whose matrices are gone."""
    unknown = [
        path
        for path in folder.iterdir()
        if _FILE.fullmatch(path.name) and path.name.removesuffix(".npy") not in known
    ]
    for path in unknown:
        path.unlink()
    return len(unknown)
