"""The arena: hands out extents, grows ahead of use, evicts, and gives memory back."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from wavetrim.service.storage.arena.extent_table import ExtentTable
from wavetrim.service.storage.arena.memory_limit import read_memory_left
from wavetrim.service.storage.arena.slab import LARGEST_BYTES, Slab, find_usual_bytes, round_up
from wavetrim.service.storage.arena.slab_supply import SlabSupply
from wavetrim.service.storage.errors import StorageFull
from wavetrim.service.storage.memory.extent import Hold

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 10.0
"""How long one `obtain` may take; chosen."""


class ArenaFull(StorageFull):
    """There is no memory in the arena, nothing can be evicted, and the arena cannot grow."""


class Arena:
    """Shared memory in slabs, from which extents are taken.

    It begins with one slab, makes the next one when less than half a slab is free, and gives back
    slabs that were unused for a while, except one that is ahead of use. To be used from one event
    loop; extents and their holds may be used in any thread.

    Args:
        limit_bytes: The most memory to take; with 0 it is always full.
        slab_bytes: Size of a usual slab, a multiple of 2 MiB; None for one that suits the limit.
        poison: Whether freed bytes are overwritten, for tests.
        memory_left: Memory that may still be taken, in bytes. Called in threads.
        idle_seconds: How long an unused slab is kept.

    Attributes:
        limit_bytes: As given.
        supply: Its slabs.
        evict: Called with the number of missing bytes. Releases holds of extents whose content is
            elsewhere, too, and returns their bytes; 0 if there are none.
    """

    def __init__(
        self,
        *,
        limit_bytes: int,
        slab_bytes: int | None = None,
        poison: bool = False,
        memory_left: Callable[[], int] = read_memory_left,
        idle_seconds: float = 60.0,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._usual_bytes = slab_bytes or find_usual_bytes(limit_bytes)
        self._table = ExtentTable(poison=poison)
        self.supply = SlabSupply(
            self._table,
            limit_bytes=limit_bytes,
            usual_bytes=self._usual_bytes,
            memory_left=memory_left,
            idle_seconds=idle_seconds,
        )
        self._waiting = 0
        self.evict: Callable[[int], int] = lambda _: 0
        self._evictions = 0
        self._refusals = 0

    async def start(self) -> None:
        """Make the first slab: a usual one, or as much as the limit and the memory allow.

        Without memory for any, the arena is empty and tries again at the next request.
        """
        await self.supply.start()

    async def close(self) -> None:
        """Let go of all memory; the engine must be gone. Extents that are held stay readable."""
        await self.supply.close()
        self._table = ExtentTable(poison=False)  # an empty one: nothing is handed out any more

    def try_obtain(self, size_bytes: int, holder: str) -> Hold | None:
        """An extent in pages that are already made, or None; takes a few microseconds."""
        hold = self._table.take(size_bytes, holder)
        if hold is not None:
            self._grow_ahead()
        return hold

    async def obtain(
        self,
        size_bytes: int,
        holder: str,
        otherwise: Callable[[], Awaitable[Hold]] | None = None,
    ) -> Hold:
        """An extent; for it the arena grows, gives back unused slabs, and evicts.

        Args:
            size_bytes: Its size.
            holder: What needs it.
            otherwise: Finds memory elsewhere if there is none; None to refuse that.

        Raises:
            ArenaFull: There is no memory. This does not wait for others to release theirs.
        """

        async def take(needed_bytes: int, deadline: float) -> Hold | None:
            while (hold := self._table.take(size_bytes, holder)) is None:
                if not await self.supply.grow(needed_bytes, deadline):
                    return None
            return hold

        if (hold := self.try_obtain(size_bytes, holder)) is not None:
            return hold
        try:
            hold = await self._find("size in bytes", size_bytes, take)
        except ArenaFull:
            if otherwise is None:
                raise
            return await otherwise()
        self._grow_ahead()
        return hold

    async def lease(self, size_bytes: int) -> Slab:
        """A new slab for one caller alone, without extents.

        Its memory is new, since used memory would show what was in it. It counts against the
        arena's limit until the engine has let go of it after `supply.give_leased_back`.

        Args:
            size_bytes: Its least size.

        Raises:
            ArenaFull: There is no memory, and none can be freed.
        """
        return await self._find("bytes", size_bytes, self.supply.lease)

    def describe(self) -> dict[str, int]:
        """The arena's sizes and counts now, by the names that `/v1/devices` documents."""
        slabs = (*self.supply.shared, *self.supply.leaving)
        return {
            "limit_bytes": self.limit_bytes,
            "made_bytes": self.supply.made_bytes,
            "used_bytes": self._table.used_bytes,
            "locked_bytes": sum(slab.size_bytes for slab in slabs if slab.locked),
            "slabs": len(slabs),
            "extents": self._table.count,
            "evictions": self._evictions,
            "refusals": self._refusals,
            "leases": len(self.supply.leased),
            "leased_bytes": sum(slab.size_bytes for slab in self.supply.leased.values()),
        }

    async def _find(
        self, field: str, size_bytes: int, find: Callable[[int, float], Awaitable[T | None]]
    ) -> T:
        """Try again while memory can be freed; refused by `field` in the end."""
        needed_bytes = round_up(size_bytes)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        self._waiting += 1  # a slab made ahead now could take the memory of the one that is needed
        try:
            while needed_bytes <= min(self.limit_bytes, LARGEST_BYTES):
                if (found := await find(needed_bytes, deadline)) is not None:
                    return found
                if time.monotonic() > deadline or not await self._free(needed_bytes, deadline):
                    break
        finally:
            self._waiting -= 1
        self._refusals += 1
        limit = (
            f"what the arena may still take: {self._table.free_bytes} of its "
            f"{self.supply.made_bytes} bytes are free, in pieces, and it may not grow beyond "
            f"{self.limit_bytes} (WAVETRIM_ARENA_BYTES) or the memory that may still be taken"
        )
        raise ArenaFull(field, size_bytes, limit)

    def _grow_ahead(self) -> None:
        if self._table.free_bytes < self._usual_bytes // 2 and not self._waiting:
            self.supply.grow_ahead()

    async def _free(self, needed_bytes: int, deadline: float) -> bool:
        """Give back unused slabs, or else evict; False if there is nothing to free."""
        if await self.supply.give_unused_back(needed_bytes, deadline):
            return True
        is_evicted = self.evict(needed_bytes) > 0
        self._evictions += is_evicted
        return is_evicted
