"""SQLite's files, which must be the same ones for as long as they are open.

SQLite goes on writing to a file that was moved away, opens whatever has taken its place for the
next connection, and makes one where there is none: then some calls see one database and some
another. So before each transaction it is made sure that the names still lead to the files that are
open.
"""

import logging
import sqlite3
import threading
from pathlib import Path
from typing import Final

from sqlalchemy.exc import OperationalError as DatabaseAway

logger = logging.getLogger(__name__)

_SUFFIXES: Final = ("", "-wal")
"""Of the database and its write-ahead log, in which the latest commits are."""

Identity = tuple[int, int]


class SqliteFile:
    """The database's own file and its write-ahead log. Thread-safe.

    Args:
        path: The database's own file.

    Attributes:
        path: The same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[Path, Identity] = {}
        self._keeper: sqlite3.Connection | None = None
        self._written_back = False
        self._lock = threading.Lock()

    def keep(self) -> None:
        """Keep the files open from now on, as a whole: SQLite's last connection removes the log."""
        # It is used by whichever thread finds a change first, under the lock.
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
        """What has become of the files, in words; None while they are the ones that are open."""
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
        """Make sure that the files are those that are open.

        If they are not, what only the write-ahead log has is written to the database's own file,
        wherever that is now: a log whose name is lost goes with the last connection.

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
