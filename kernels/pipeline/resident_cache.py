"""A cache of operands on a GPU, so that the next product does not copy them in again.

A resident has a key, which never stands for other bytes. Its device memory is freed with the last
reference, so a product may go on with one that is evicted. The least recently used are evicted
first.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wavetrim.kernels.gemm.operands import Layout  # imports NumPy

RESIDENT_SHARE: Final = 0.5
"""Share of a GPU's memory that residents may take. Chosen: buffers take the rest."""

MOST_RESIDENT_SHARE: Final = 0.75
"""Share above which no plan keeps a B. Chosen: buffers of any product fit in the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """An operand on the device.

    Attributes:
        layout: How it lies in its memory.
        size_bytes: Its memory.
        memory: That memory, so that it stays alive.
    """

    layout: "Layout"
    size_bytes: int
    memory: object


@dataclass(frozen=True, slots=True)
class ResidentCounts:
    """Memory of the residents of one GPU, and counts since the process started.

    Attributes:
        limit_bytes: Memory that they may take.
        size_bytes: Memory that they take.
        operands: Residents now.
        uses: Products whose B was resident.
        fetches: Residents copied in.
        evictions: Residents dropped because memory was short.
    """

    limit_bytes: int
    size_bytes: int
    operands: int
    uses: int
    fetches: int
    evictions: int


class ResidentCache:
    """The residents of one GPU by their keys. Thread-safe.

    Args:
        limit_bytes: Memory that they may take together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._residents: OrderedDict[str, Resident] = OrderedDict()  # the last used one last
        self._lock = threading.Lock()
        self._size_bytes = 0
        self._uses = self._fetches = self._evictions = 0

    def __contains__(self, key: str) -> bool:
        return key in self._residents

    @property
    def size_bytes(self) -> int:
        """Memory that they take."""
        return self._size_bytes

    def use(self, key: str | None) -> Resident | None:
        """The resident of this key, which counts as used now; None if there is none."""
        if key is None:
            return None
        with self._lock:
            found = self._residents.get(key)
            if found is not None:
                self._residents.move_to_end(key)
                self._uses += 1
            return found

    def add(self, key: str, resident: Resident) -> None:
        """Add an operand that was copied in. Call `shrink` first, to free memory for it."""
        with self._lock:
            before = self._drop(key)
            self._residents[key] = resident
            self._size_bytes += resident.size_bytes
            self._fetches += 1
        del before  # outside the lock, because freeing memory waits for the GPU

    def forget(self, key: str) -> None:
        """Drop the resident of a key, if there is one."""
        with self._lock:
            dropped = self._drop(key)
        del dropped

    def shrink(self, most_bytes: int) -> None:
        """Drop the least recently used ones until the others take at most this."""
        dropped = []
        with self._lock:
            for key in tuple(self._residents):
                if self._size_bytes <= most_bytes:
                    break
                dropped.append(self._drop(key))
                self._evictions += 1
        dropped.clear()

    def count(self) -> ResidentCounts:
        """Their memory, and the counts of what has happened."""
        with self._lock:
            return ResidentCounts(
                limit_bytes=self.limit_bytes,
                size_bytes=self._size_bytes,
                operands=len(self._residents),
                uses=self._uses,
                fetches=self._fetches,
                evictions=self._evictions,
            )

    def _drop(self, key: str) -> Resident | None:
        dropped = self._residents.pop(key, None)
        if dropped is not None:
            self._size_bytes -= dropped.size_bytes
        return dropped
