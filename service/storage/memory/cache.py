"""The stored matrices that lie in the arena, as whole .npy files: header and elements.

For matrices on disk the arena is a cache: when memory is needed, the least recently used leave,
except those that are in use. A matrix that is stored in memory only stays until it is deleted.
"""

import threading
from collections import OrderedDict
from typing import Final

from wavetrim.service.storage.memory.extent import Hold

_HOLDER: Final = "matrix"


class MatrixCache:
    """Matrices in the arena by their ids. Thread-safe."""

    def __init__(self) -> None:
        self._holds: OrderedDict[str, tuple[Hold, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, matrix_id: str, hold: Hold, *, on_disk: bool) -> None:
        """Keep a matrix.

        Args:
            matrix_id: The matrix.
            hold: A hold of an extent with its .npy file. It stays the caller's: the extent is held
                once more.
            on_disk: Whether the matrix is on disk, too.
        """
        added = hold.extent.hold(_HOLDER)
        with self._lock:
            before = self._holds.pop(matrix_id, None)
            self._holds[matrix_id] = added, on_disk
        if before is not None:
            before[0].release()

    def take(self, matrix_id: str, holder: str) -> Hold | None:
        """A hold of a matrix's extent, which counts as used now; None if it is not here."""
        with self._lock:
            found = self._holds.get(matrix_id)
            if found is None:
                return None
            self._holds.move_to_end(matrix_id)
            return found[0].extent.hold(holder)

    def drop(self, matrix_id: str) -> None:
        """Let go of a matrix that was deleted; other holds of it stay."""
        with self._lock:
            found = self._holds.pop(matrix_id, None)
        if found is not None:
            found[0].release()

    def evict(self, wanted_bytes: int) -> int:
        """Let go of matrices that are on disk and that nobody else holds, the oldest first.

        Returns:
            The bytes of their extents; less than wanted if there are not enough.
        """
        freed_bytes = 0
        with self._lock:
            for matrix_id, (hold, on_disk) in list(self._holds.items()):
                if freed_bytes >= wanted_bytes:
                    break
                if on_disk and hold.extent.holders == (_HOLDER,):
                    del self._holds[matrix_id]
                    freed_bytes += len(hold.extent.view)
                    hold.release()
        return freed_bytes

    def clear(self) -> None:
        """Let go of all of them."""
        for matrix_id in list(self._holds):
            self.drop(matrix_id)
