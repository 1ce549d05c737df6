"""SQLite's files, which must stay where they are while they are open.

When a file was moved away, SQLite goes on writing to it, but opens or makes another one in its
place for the next connection: then some calls see one database and some another. So each
transaction first makes sure that the names still lead to the open files.
"""

import logging
import sqlite3
import threading
from pathlib import Path
from typing import Final

from sqlalchemy.exc import OperationalError as DatabaseAway

logger = logging.getLogger(__name__)

_SUFFIXES: Final = ("", "-wal")
"""Suffixes of the database's own file and of its write-ahead log, which has the latest commits."""

Identity = tuple[int, int]


class SqliteFile:
    """The database's own file and its write-ahead log. Thread-safe.

    Args:
        path: The database's own file.

    Attributes:
        path: As given.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[Path, Identity] = {}
        self._keeper: sqlite3.Connection | None = None
        self._written_back = False
        self._lock = threading.Lock()

    def keep(self) -> None:
        """Keep the files open from now on; otherwise SQLite's last connection removes the log."""
        # The first thread that finds a change uses this connection, under the lock.
        self._keeper = sqlite3.connect(self.path, check_same_thread=False)
        self._keeper.execute("SELECT name FROM sqlite_master").fetchall()
        paths = (Path(f"{self.path}{suffix}") for suffix in _SUFFIXES)
        found = {path: _identify(path) for path in paths}
        self._known = {path: one for path, one in found.items() if one is not None}

    def let_go(self) -> None:
        """Close them."""
        self._known = {}
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def find_change(self) -> str | None:
        """What has happened to the files, in words; None while they are the open ones."""
        for path, known in self._known.items():
            found = _identify(path)
            if found != known:
                what = "is gone" if found is None else "was replaced"
                return (
                    f"{path} {what} while the service has it open; put back the file that was "
                    "there, or restart the service with the right one"
                )
        return None

    def expect_same(self) -> None:
        """Make sure that the files are the open ones.

        If they are not, the write-ahead log is written into the open database file, wherever that
        is now: a log without a name ends with the last connection.

        Raises:
            sqlalchemy.exc.OperationalError: They are not.
        """
        change = self.find_change()
        if change is not None:
            self._write_back()
            raise DatabaseAway("BEGIN", None, sqlite3.OperationalError(change))

    def _write_back(self) -> None:
        with self._lock:
            if self._written_back or self._keeper is None:
                return
            try:
                busy, *_ = self._keeper.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            except sqlite3.DatabaseError:
                logger.exception("the write-ahead log cannot be written back")
                return
            self._written_back = not busy


def _identify(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
