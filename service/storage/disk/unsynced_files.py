"""Small files that share their syncs: until the disk has them, the database has their bytes, too.

A sync of its own costs a small file more than all else. So its bytes are committed with its row:
that needs a sync anyway, and shares it with others. Now and then all files that were written
meanwhile are synced together, and the database forgets their bytes. After a power cut, the next
start writes anew those that the database still has.
"""

import ctypes
import logging
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.storage.database.database import reading, split
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.database.tables import unsynced_files
from wavetrim.service.storage.disk.files import THIS_FILE, flush, write_whole

logger = logging.getLogger(__name__)

SMALL_BYTES: Final = 2**18
"""Files below this share their syncs; chosen: to write them once more costs less than a sync."""

MOST_BYTES: Final = 32 * 2**20
"""Bytes of files that wait for a sync; chosen: half of what the disk keeps for the database."""

_ADDED: Final = insert(unsynced_files)
_NAMED: Final = unsynced_files.c.matrix.in_(bindparam("ids", expanding=True))
_FOUND: Final = select(unsynced_files).where(_NAMED)
_FORGOTTEN: Final = delete(unsynced_files).where(_NAMED)


class UnsyncedFiles:
    """The files of a folder whose bytes are in the database, too. Thread-safe.

    Args:
        database: Has their bytes.
        commits: Changes it.
        folder: Has the files.
    """

    def __init__(self, database: Engine, commits: SharedCommits, folder: Path) -> None:
        self._database, self._commits, self._folder = database, commits, folder
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._descriptor: int | None = None

    def takes(self, size_bytes: int) -> bool:
        """Whether a file may wait for a sync; others have one of their own."""
        has_room = self._descriptor is not None and self._waiting_bytes < MOST_BYTES
        return has_room and size_bytes < SMALL_BYTES

    def start(self) -> None:
        """Write anew what an earlier run has left, and let files wait from now on.

        Files that cannot be written now are left to the next start.
        """
        # Of a write that fails the system tells those who had the folder open then.
        self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        left = self._list()
        try:
            self._write_anew(left)
        except OSError:
            logger.exception("%d matrices cannot be written anew yet", len(left))
        else:
            self._forget(left)

    def note_added(self, size_bytes: int) -> None:
        """The bytes of a file that is there were committed (`add_contents`)."""
        with self._lock:
            self._waiting_bytes += size_bytes

    def sync(self) -> None:
        """Have the disk take all files that wait; then the database forgets their bytes.

        Raises:
            OSError: They could neither be synced nor written anew, and go on waiting.
            sqlalchemy.exc.SQLAlchemyError: The database does not answer; likewise.
        """
        waiting_bytes = self._waiting_bytes
        if not waiting_bytes or self._descriptor is None:
            return
        waiting = self._list()
        try:
            _sync_file_system(self._descriptor)
        except OSError as error:
            logger.warning("%d files were not synced (%s): written anew", len(waiting), error)
            self._write_anew(waiting)
        self._forget(waiting)
        self.note_added(-waiting_bytes)

    def close(self) -> None:
        """Sync what waits; what cannot be synced is left to the next start."""
        try:
            self.sync()
        except (OSError, SQLAlchemyError):
            logger.exception("files wait for the next start to be synced")
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _list(self) -> Sequence[str]:
        with reading(self._database) as connection:
            return connection.scalars(select(unsynced_files.c.matrix)).all()

    def _write_anew(self, ids: Sequence[str]) -> None:
        """Write files once more, each as a whole, from the bytes in the database."""
        for some in split(ids):
            with reading(self._database) as connection:
                found = connection.execute(_FOUND, {"ids": some}).all()
            for matrix_id, content in found:
                path = self._folder / f"{matrix_id}.npy"
                path.with_suffix(".part").unlink(missing_ok=True)
                write_file(path, memoryview(content), syncs=True)
        if ids:
            flush(self._folder)

    def _forget(self, ids: Sequence[str]) -> None:
        for some in split(ids):
            forget = partial(Connection.execute, statement=_FORGOTTEN, parameters={"ids": some})
            self._commits.add(forget, durable=False).result()


def write_file(path: Path, content: memoryview, *, syncs: bool) -> None:
    """Write a file as a whole, in place of what is there under its name.

    Raises:
        OSError: It cannot be written; what was there stays. Or another one begins it.
    """
    new = path.with_suffix(".part")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | THIS_FILE, 0o600)
    try:
        write_whole(file, content, 0)
        if syncs:
            os.fsync(file)
        new.rename(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)


def add_contents(connection: Connection, contents: Sequence[tuple[str, memoryview]]) -> None:
    """Add the bytes of files, in the transaction that adds the rows of their matrices."""
    if contents:
        rows = [{"matrix": matrix_id, "content": content} for matrix_id, content in contents]
        connection.execute(_ADDED, rows)


def _sync_file_system(descriptor: int) -> None:
    """Have the disk take all that was written to a file system, in one go.

    Raises:
        OSError: Something was not written; Linux tells so from 5.8 on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
