"""Files whose checksum was seen to be right, and that nobody has touched since.

To check a file it must be read whole. A matrix that many jobs use is read once: as long as its
inode, length and times stay the same, it is what it was.
"""

import os
import threading
from typing import Final

_MOST_FILES: Final = 4096

Signature = tuple[int, int, int, int, int]


class IntactFiles:
    """Remembers the latest files that were right. Thread-safe."""

    def __init__(self) -> None:
        self._signatures: dict[str, Signature] = {}
        self._lock = threading.Lock()

    def note(self, matrix_id: str, found: os.stat_result) -> None:
        """A matrix's file, looked at before it was read, was right."""
        with self._lock:
            self._signatures.pop(matrix_id, None)
            self._signatures[matrix_id] = _sign(found)
            if len(self._signatures) > _MOST_FILES:
                del self._signatures[next(iter(self._signatures))]

    def holds(self, matrix_id: str, found: os.stat_result) -> bool:
        """Whether a matrix's file was right, and is still the same."""
        with self._lock:
            return self._signatures.get(matrix_id) == _sign(found)

    def forget(self, matrix_id: str) -> None:
        """The matrix is gone."""
        with self._lock:
            self._signatures.pop(matrix_id, None)


def _sign(found: os.stat_result) -> Signature:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
