"""Extents of the arena, and who holds them.

Several users share an extent's memory: the socket that it is received from, the engine, the socket
that it is sent to, the disk. Each has a hold of its own, and releases it only when it certainly no
longer touches the memory. The last release frees the extent.
"""

import ctypes
import threading
from collections import deque
from types import TracebackType
from typing import Final, Self

from wavetrim.service.storage.arena.errors import ExtentFreed
from wavetrim.service.storage.arena.placement import (
    Placement,
    find_reserved_bytes,
    join_address,
    split_address,
)
from wavetrim.service.storage.arena.slab import Slab

POISON: Final = 0xA5
"""Freed bytes are set to this in tests: a missing hold shows as wrong bytes."""


class Extent:
    """A range of one slab.

    Attributes:
        slab: Where it lies.
        offset_bytes: Where it begins in the slab: a multiple of 4096 from 64 KiB on, of 256 below.
        size_bytes: Its length, as it was asked for.
        reserved_bytes: Its length, rounded up.
        view: Its bytes, writable.
    """

    __slots__ = ("_holds", "_table", "offset_bytes", "reserved_bytes", "size_bytes", "slab", "view")

    def __init__(
        self,
        table: "ExtentTable",
        slab: Slab,
        offset_bytes: int,
        size_bytes: int,
        reserved_bytes: int,
    ) -> None:
        self._table = table
        self._holds: list[Hold] = []
        self.slab = slab
        self.offset_bytes = offset_bytes
        self.size_bytes = size_bytes
        self.reserved_bytes = reserved_bytes
        self.view = slab.view[offset_bytes : offset_bytes + size_bytes]

    @property
    def place(self) -> int:
        """Id of the slab."""
        return self.slab.id

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds it now; nobody once it is free."""
        return tuple(hold.holder for hold in self._holds)

    def hold(self, holder: str) -> "Hold":
        """Keep the extent until this hold, too, is released. Thread-safe.

        Args:
            holder: What needs it, such as "engine" or "socket out"; helps to find a leak.

        Raises:
            ExtentFreed: Nobody holds it any more.
        """
        return self._table.hold(self, holder)


class Hold:
    """One holder's claim on an extent. As a context manager it is released at the end.

    Attributes:
        extent: What is held.
        holder: What holds it.
    """

    __slots__ = ("extent", "holder")

    def __init__(self, extent: Extent, holder: str) -> None:
        self.extent = extent
        self.holder = holder

    def release(self) -> None:
        """Let go; a second call does nothing. Thread-safe, and safe in finalizers."""
        self.extent._table.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class ExtentTable:
    """All extents of an arena. Thread-safe; every call takes some microseconds.

    A release never waits: it is noted, and carried out by the thread that has or gets the lock. So
    it may come from any thread, and from a finalizer that interrupts this very code.

    Args:
        poison: Whether freed bytes are overwritten.

    Attributes:
        count: Extents that are held.
        used_bytes: Memory that they take.
    """

    def __init__(self, *, poison: bool) -> None:
        self._poison = poison
        self._lock = threading.Lock()
        self._placement = Placement()
        self._slabs: dict[int, Slab] = {}
        self._released: deque[Hold] = deque()
        self.count = 0
        self.used_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Free memory, in one piece or several."""
        return self._placement.free_bytes

    def add(self, slab: Slab) -> None:
        """Begin to place extents in a slab."""
        with self._lock:
            self._slabs[slab.id] = slab
            self._placement.add_slab(slab.id, slab.size_bytes)
        self._settle()

    def withdraw(self, slab: Slab) -> bool:
        """Stop placing extents in a slab; False if one lies in it."""
        with self._lock:
            self._carry_out_releases()
            withdrawn = self._placement.remove_slab(slab.id)
            if withdrawn:
                del self._slabs[slab.id]
        self._settle()
        return withdrawn

    def list_unused(self) -> list[Slab]:
        """Slabs in which no extent lies, the newest first."""
        with self._lock:
            self._carry_out_releases()
            self._placement.drop_empty_chunk()
            unused = [
                slab for slab in self._slabs.values() if self._placement.is_slab_free(slab.id)
            ]
        self._settle()
        return sorted(unused, key=lambda slab: -slab.id)

    def take(self, size_bytes: int, holder: str) -> Hold | None:
        """A hold of a new extent, or None if there is no place."""
        reserved_bytes = find_reserved_bytes(size_bytes)
        with self._lock:
            address = self._placement.take(reserved_bytes)
            if address is None:
                hold = None
            else:
                number, offset_bytes = split_address(address)
                slab = self._slabs[number]
                extent = Extent(self, slab, offset_bytes, size_bytes, reserved_bytes)
                hold = Hold(extent, holder)
                extent._holds.append(hold)
                slab.uses += 1
                self.count += 1
                self.used_bytes += reserved_bytes
        self._settle()
        return hold

    def hold(self, extent: Extent, holder: str) -> Hold:
        """One more hold of an extent."""
        hold = Hold(extent, holder)
        with self._lock:
            self._carry_out_releases()
            is_held = bool(extent._holds)
            if is_held:
                extent._holds.append(hold)
        self._settle()
        if not is_held:
            raise ExtentFreed(f"extent of {extent.size_bytes} bytes: nobody holds it any more")
        return hold

    def release(self, hold: Hold) -> None:
        """Let go of an extent; the last hold frees it."""
        self._released.append(hold)
        self._settle()

    def _settle(self) -> None:
        """Carry out noted releases, unless another thread will."""
        while self._released and self._lock.acquire(blocking=False):
            try:
                self._carry_out_releases()
            finally:
                self._lock.release()

    def _carry_out_releases(self) -> None:
        """Carry out noted releases, under the lock. A hold may be released twice."""
        while self._released:
            hold = self._released.popleft()
            holds = hold.extent._holds
            if hold in holds:
                holds.remove(hold)
                if not holds:
                    self._free(hold.extent)

    def _free(self, extent: Extent) -> None:
        slab = extent.slab
        if self._poison:
            ctypes.memset(slab.address + extent.offset_bytes, POISON, extent.reserved_bytes)
        self._placement.give(join_address(slab.id, extent.offset_bytes), extent.reserved_bytes)
        self.count -= 1
        self.used_bytes -= extent.reserved_bytes
