"""A copy of a SQLite database while others write to it: by SQLite's own online backup."""

import sqlite3
from contextlib import closing
from pathlib import Path

from wavetrim.service.storage.disk.files import flush


def copy_sqlite(source: Path, target: Path) -> None:
    """Copies what is committed, write-ahead log included; the copy is whole or not there.

    Args:
        source: The database's own file.
        target: The copy; one that is there is replaced.

    Raises:
        sqlite3.Error: It cannot be read or written.
    """
    new = target.with_name(f"{target.name}.part")
    new.unlink(missing_ok=True)
    new.touch(0o600, exist_ok=False)  # readable by its user alone, whatever the umask
    only_read = f"{source.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(only_read, uri=True)) as original,
        closing(sqlite3.connect(new)) as copy,
    ):
        original.backup(copy)
        # A single file: a log beside it could be lost.
        copy.execute("PRAGMA journal_mode = DELETE")
    flush(new)
    new.replace(target)
    flush(target.parent)
