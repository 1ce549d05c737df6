"""The stored matrices that lie in the arena, as whole .npy files: header and elements.

For matrices on disk the arena is a cache: when room is needed, the least recently used leave,
except those that are in use. A matrix that is kept in memory only stays until it is deleted.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from wavetrim.service.storage.arena.extent import Hold

_HOLDER: Final = "matrix"


@dataclass(frozen=True, slots=True)
class Resident:
    """A matrix in the arena.

    Attributes:
        hold: Keeps its memory.
        on_disk: Whether it is on disk, too.
    """

    hold: Hold
    on_disk: bool


class Residents:
    """Matrices in the arena by their ids. Thread-safe."""

    def __init__(self) -> None:
        self._residents: OrderedDict[str, Resident] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, matrix_id: str, hold: Hold, *, on_disk: bool) -> None:
        """Keep a matrix.

        Args:
            matrix_id: The matrix.
            hold: A hold of an extent with its .npy file. It stays the caller's: the extent is held
                once more.
            on_disk: Whether the matrix is on disk, too.
        """
        kept = Resident(hold.extent.hold(_HOLDER), on_disk)
        with self._lock:
            before = self._residents.pop(matrix_id, None)
            self._residents[matrix_id] = kept
        if before is not None:
            before.hold.release()

    def take(self, matrix_id: str, holder: str) -> Hold | None:
        """A hold of a matrix's extent, which counts as used now; None if it is not here."""
        with self._lock:
            resident = self._residents.get(matrix_id)
            if resident is None:
                return None
            self._residents.move_to_end(matrix_id)
            return resident.hold.extent.hold(holder)

    def drop(self, matrix_id: str) -> None:
        """Let go of a matrix that was deleted; other holds of it stay."""
        with self._lock:
            resident = self._residents.pop(matrix_id, None)
        if resident is not None:
            resident.hold.release()

    def evict(self, wanted_bytes: int) -> int:
        """Let go of matrices that are on disk and that nobody else holds, the oldest first.

        Returns:
            The bytes of their extents; less than wanted if there are not enough.
        """
        freed_bytes = 0
        with self._lock:
            for matrix_id, resident in list(self._residents.items()):
                if freed_bytes >= wanted_bytes:
                    break
                extent = resident.hold.extent
                if resident.on_disk and extent.holders == (_HOLDER,):
                    del self._residents[matrix_id]
                    freed_bytes += extent.reserved_bytes
                    resident.hold.release()
        return freed_bytes

    def clear(self) -> None:
        """Let go of all of them."""
        with self._lock:
            left = list(self._residents.values())
            self._residents.clear()
        for resident in left:
            resident.hold.release()
