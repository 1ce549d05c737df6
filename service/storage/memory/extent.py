"""Extents: ranges of bytes in memory, and who holds them.

Several users share an extent's memory: the socket that it is received from, the engine, the socket
that it is sent to, the disk. Each has a hold of its own, and releases it only when it certainly no
longer touches the memory. The last release frees the extent.
"""

import threading
from collections.abc import Callable
from typing import Final

from wavetrim.service.errors import ServiceError

PAGE_BYTES: Final = 4096
"""Alignment of extents, and of the elements of large matrices in memory and in their files: whole
pages are copied fastest, and a disk takes no less past the cache."""


class ExtentFreed(ServiceError):
    """A hold was asked of an extent that is freed: its memory may be in use by another."""


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

        Raises:
            ExtentFreed: Its last holder has let go of it.
        """
        hold = Hold(self, holder)
        with self._lock:
            if self._is_free:
                raise ExtentFreed(f"extent of {len(self.view)} bytes: nobody holds it any more")
            self._holds.append(hold)
        return hold

    def release(self, hold: "Hold") -> None:
        """Forget a hold, if it is not forgotten yet."""
        with self._lock:
            if hold not in self._holds:
                return
            self._holds.remove(hold)
            is_last = self._is_free = not self._holds
        if is_last:
            self._free()


class Hold:
    """One holder's claim on an extent.

    Attributes:
        extent: What is held.
        holder: What holds it.
    """

    __slots__ = ("extent", "holder")

    def __init__(self, extent: Extent, holder: str) -> None:
        self.extent = extent
        self.holder = holder

    def release(self) -> None:
        """Let go; a second call does nothing. Thread-safe."""
        self.extent.release(self)
