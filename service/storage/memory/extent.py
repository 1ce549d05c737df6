"""Extents: ranges of bytes in memory, who holds them, and where in the arena they lie.

Several users share an extent's memory: the socket that it is received from, the engine, the socket
that it is sent to, the disk. Each has a hold of its own, and releases it only when it certainly no
longer touches the memory. The last release frees the extent.
"""

import ctypes
import threading
import time
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from wavetrim.service.storage.memory.slab import Slab

PAGE_BYTES: Final = 4096
"""Alignment of extents, and of the elements of large matrices in memory and in their files: whole
pages are copied fastest, and a disk takes no less past the cache."""

POISON: Final = 0xA5
"""Freed bytes are set to this in tests: a missing hold shows as wrong bytes."""

_HOLDER: Final = "matrix"


class Extent:
    """A range of a slab of the arena, all of a leased slab, or a mapped file. Thread-safe.

    Attributes:
        slab: Id of the slab, or path of the file: where the engine finds it.
        offset_bytes: Where it begins there.
        view: Its bytes, writable.
    """

    __slots__ = ("_free", "_holds", "_is_free", "_lock", "offset_bytes", "slab", "view")

    def __init__(
        self, slab: int | str, offset_bytes: int, view: memoryview, free: Callable[[], None]
    ) -> None:
        self.slab = slab
        self.offset_bytes = offset_bytes
        self.view = view
        self._free = free
        self._is_free = False
        self._holds: list[Hold] = []
        self._lock = threading.Lock()

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds it now; nobody once it is free."""
        return tuple(hold.holder for hold in self._holds)

    def hold(self, holder: str) -> "Hold":
        """Keep the extent until this hold, too, is released.

        Args:
            holder: What needs it, such as "engine" or "socket out"; helps to find a leak.
        """
        hold = Hold(self, holder)
        with self._lock:
            assert not self._is_free, "its memory may be in use by another"
            self._holds.append(hold)
        return hold


@dataclass(slots=True, eq=False)
class Hold:
    """One holder's claim on an extent.

    Attributes:
        extent: What is held.
        holder: What holds it.
    """

    extent: Extent
    holder: str

    def release(self) -> None:
        """Let go; a second call does nothing. Thread-safe."""
        extent = self.extent
        with extent._lock:
            if self not in extent._holds:
                return
            extent._holds.remove(self)
            is_last = extent._is_free = not extent._holds
        if is_last:
            extent._free()


class MatrixCache:
    """The stored matrices that lie in the arena, as whole .npy files, by their ids. Thread-safe.

    For matrices on disk the arena is a cache: when memory is needed, the least recently used leave,
    except those that are in use. One that is stored in memory only stays until it is deleted.
    """

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


class ExtentTable:
    """All extents of an arena, and the free ranges between them: best fit. Thread-safe.

    An extent is taken from the smallest free range that is large enough, the lowest of equals; a
    freed one is joined with free neighbours in its slab. Sorted lists are searched by bisection, so
    every call takes some microseconds, also with thousands of ranges.

    Args:
        poison: Whether freed bytes are overwritten.

    Attributes:
        slabs: Those in which extents are placed, by their ids, the oldest first.
        count: Extents that are held.
        used_bytes: Memory that they take.
        free_bytes: Free memory, in one piece or several.
    """

    def __init__(self, *, poison: bool) -> None:
        self._poison = poison
        self._lock = threading.Lock()
        self.slabs: dict[int, Slab] = {}
        self.count = self.used_bytes = self.free_bytes = 0
        self._by_size: list[tuple[int, int, int]] = []  # (size, slab, begin), sorted
        self._size_at: dict[tuple[int, int], int] = {}  # (slab, begin) → size
        self._begin_before: dict[tuple[int, int], int] = {}  # (slab, end) → begin

    def add(self, slab: Slab) -> None:
        """Begin to place extents in a slab."""
        with self._lock:
            self.slabs[slab.id] = slab
            self._insert(slab.id, 0, slab.size_bytes)

    def withdraw(self, slab: Slab) -> bool:
        """Stop placing extents in a slab; False if one lies in it."""
        with self._lock:
            if not self._is_unused(slab):
                return False
            self._remove(slab.id, 0, slab.size_bytes)
            del self.slabs[slab.id]
        return True

    def list_unused(self) -> list[Slab]:
        """Slabs in which no extent lies, the largest first."""
        with self._lock:
            unused = [slab for slab in self.slabs.values() if self._is_unused(slab)]
        return sorted(unused, key=lambda slab: -slab.size_bytes)

    def take(self, size_bytes: int, holder: str) -> Hold | None:
        """A hold of a new extent, or None if no free range is large enough."""
        taken_bytes = max(1, -(-size_bytes // PAGE_BYTES)) * PAGE_BYTES
        with self._lock:
            index = bisect_left(self._by_size, (taken_bytes, 0, 0))
            if index == len(self._by_size):
                return None
            found_bytes, slab_id, begin = self._by_size[index]
            self._remove(slab_id, begin, found_bytes)
            if found_bytes > taken_bytes:
                self._insert(slab_id, begin + taken_bytes, found_bytes - taken_bytes)
            self.count += 1
            self.used_bytes += taken_bytes
            slab = self.slabs[slab_id]
        free = partial(self._free, slab, begin, taken_bytes)
        return Extent(slab_id, begin, slab.view[begin : begin + size_bytes], free).hold(holder)

    def _free(self, slab: Slab, begin: int, size: int) -> None:
        if self._poison:
            ctypes.memset(slab.address + begin, POISON, size)
        slab.used_at = time.monotonic()
        with self._lock:
            self.count -= 1
            self.used_bytes -= size
            if (after := self._size_at.get((slab.id, begin + size))) is not None:
                self._remove(slab.id, begin + size, after)
                size += after
            if (before := self._begin_before.get((slab.id, begin))) is not None:
                self._remove(slab.id, before, begin - before)
                begin, size = before, begin + size - before
            self._insert(slab.id, begin, size)

    def _is_unused(self, slab: Slab) -> bool:
        return self._size_at.get((slab.id, 0)) == slab.size_bytes

    def _insert(self, slab_id: int, begin: int, size: int) -> None:
        """Add a free range."""
        insort(self._by_size, (size, slab_id, begin))
        self._size_at[slab_id, begin] = size
        self._begin_before[slab_id, begin + size] = begin
        self.free_bytes += size

    def _remove(self, slab_id: int, begin: int, size: int) -> None:
        """Remove a free range."""
        del self._by_size[bisect_left(self._by_size, (size, slab_id, begin))]
        del self._size_at[slab_id, begin], self._begin_before[slab_id, begin + size]
        self.free_bytes -= size
