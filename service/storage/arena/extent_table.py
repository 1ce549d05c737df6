"""Where extents lie in the slabs of the arena: best fit, at multiples of 4096 bytes."""

import ctypes
import threading
import time
from functools import partial
from typing import Final

from wavetrim.service.storage.arena.free_ranges import FreeRanges
from wavetrim.service.storage.arena.slab import Slab
from wavetrim.service.storage.memory.extent import Extent, Hold

POISON: Final = 0xA5
"""Freed bytes are set to this in tests: a missing hold shows as wrong bytes."""

PAGE_BYTES: Final = 4096
"""Alignment of extents: whole pages are copied fastest."""

_SLAB_SHIFT: Final = 40  # an address is `slab id << 40 | offset`: slabs are smaller, none touch


class ExtentTable:
    """All extents of an arena. Thread-safe; every call takes some microseconds.

    Args:
        poison: Whether freed bytes are overwritten.

    Attributes:
        slabs: Those in which extents are placed, by their ids, the oldest first.
        count: Extents that are held.
        used_bytes: Memory that they take.
    """

    def __init__(self, *, poison: bool) -> None:
        self._poison = poison
        self._lock = threading.Lock()
        self._ranges = FreeRanges()
        self.slabs: dict[int, Slab] = {}
        self.count = 0
        self.used_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Free memory, in one piece or several."""
        return self._ranges.free_bytes

    def add(self, slab: Slab) -> None:
        """Begin to place extents in a slab."""
        with self._lock:
            self.slabs[slab.id] = slab
            self._ranges.add_region(slab.id << _SLAB_SHIFT, slab.size_bytes)

    def withdraw(self, slab: Slab) -> bool:
        """Stop placing extents in a slab; False if one lies in it."""
        with self._lock:
            withdrawn = self._ranges.remove_region(slab.id << _SLAB_SHIFT)
            if withdrawn:
                del self.slabs[slab.id]
        return withdrawn

    def list_unused(self) -> list[Slab]:
        """Slabs in which no extent lies, the newest first."""
        with self._lock:
            ids = [one for one in self.slabs if self._ranges.is_region_free(one << _SLAB_SHIFT)]
            return [self.slabs[one] for one in sorted(ids, reverse=True)]

    def take(self, size_bytes: int, holder: str) -> Hold | None:
        """A hold of a new extent, or None if no free range is large enough."""
        reserved_bytes = max(1, -(-size_bytes // PAGE_BYTES)) * PAGE_BYTES
        with self._lock:
            address = self._ranges.take(reserved_bytes)
            if address is None:
                return None
            slab = self.slabs[address >> _SLAB_SHIFT]
            self.count += 1
            self.used_bytes += reserved_bytes
        offset_bytes = address - (slab.id << _SLAB_SHIFT)
        view = slab.view[offset_bytes : offset_bytes + size_bytes]
        free = partial(self._free, slab, offset_bytes, reserved_bytes)
        return Extent(slab.id, offset_bytes, view, free).hold(holder)

    def _free(self, slab: Slab, offset_bytes: int, reserved_bytes: int) -> None:
        if self._poison:
            ctypes.memset(slab.address + offset_bytes, POISON, reserved_bytes)
        slab.used_at = time.monotonic()
        with self._lock:
            self._ranges.give((slab.id << _SLAB_SHIFT) + offset_bytes, reserved_bytes)
            self.count -= 1
            self.used_bytes -= reserved_bytes
