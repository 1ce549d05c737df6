"""The arena: hands out extents, grows ahead of use, evicts, and gives memory back."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from wavetrim.scheduler.execution.pages import HUGE_PAGE_BYTES
from wavetrim.service.storage.arena.credit import Credit
from wavetrim.service.storage.arena.errors import ArenaFull
from wavetrim.service.storage.arena.extent import ExtentTable, Hold
from wavetrim.service.storage.arena.memory_limit import read_room as read_memory_room
from wavetrim.service.storage.arena.placement import round_up
from wavetrim.service.storage.arena.slab import Slab
from wavetrim.service.storage.arena.slab_sizes import (
    LARGEST_BYTES,
    find_needed_bytes,
    find_usual_bytes,
)
from wavetrim.service.storage.arena.slab_supply import SlabSupply


@dataclass(frozen=True, slots=True)
class ArenaState:
    """The arena at one moment.

    Attributes:
        limit_bytes: The most that it may take.
        made_bytes: Bytes of its slabs, including those that are leaving.
        used_bytes: Bytes of its extents.
        locked_bytes: Bytes that the engine has page-locked.
        slabs: Number of its slabs, including those that are leaving or leased.
        extents: Number of extents that are held.
        evictions: How often something was evicted to make a place.
        refusals: How often there was no place for an extent, or no memory for a lease.
        leases: Number of slabs that are leased.
        leased_bytes: Bytes of these, a part of `made_bytes`.
    """

    limit_bytes: int
    made_bytes: int
    used_bytes: int
    locked_bytes: int
    slabs: int
    extents: int
    evictions: int
    refusals: int
    leases: int
    leased_bytes: int


class Arena:
    """Shared memory in slabs, from which extents are taken.

    It begins with one slab, makes the next one when less than half a slab is free, and gives back
    slabs that were unused for a while, except one that is ahead of use. Only methods of holds and
    extents may be called outside the event loop's thread.

    Args:
        limit_bytes: The most memory to take; 0 for no arena.
        slab_bytes: Size of a usual slab, a multiple of 2 MiB; None for one that suits the limit.
        poison: Whether freed bytes are overwritten, for tests.
        threads: How many make pages; None for the usable cores, at most 8.
        read_room: Memory that may still be taken, in bytes. Called in threads.
        idle_seconds: How long an unused slab is kept.
        patience_seconds: How long one `obtain` may take.

    Attributes:
        limit_bytes: As given.
        credit: Memory for bytes that have not come yet: as much as a usual slab.
    """

    def __init__(
        self,
        *,
        limit_bytes: int,
        slab_bytes: int | None = None,
        poison: bool = False,
        threads: int | None = None,
        read_room: Callable[[], int] = read_memory_room,
        idle_seconds: float = 60.0,
        patience_seconds: float = 10.0,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._usual_bytes = slab_bytes or find_usual_bytes(limit_bytes)
        self.credit = Credit(self._usual_bytes)
        self._patience_seconds = patience_seconds
        self._table = ExtentTable(poison=poison)
        self._supply = SlabSupply(
            self._table,
            limit_bytes=limit_bytes,
            usual_bytes=self._usual_bytes,
            threads=threads,
            read_room=read_room,
            idle_seconds=idle_seconds,
        )
        self._waiting = 0
        self._evictors: list[Callable[[int], int]] = []
        self._evictions = 0
        self._refusals = 0

    async def start(self) -> None:
        """Make the first slab: a usual one, or as much as the limit and the memory allow.

        Without memory for any, the arena is empty and tries again at the next request.
        """
        await self._supply.start()

    async def close(self) -> None:
        """Let go of all memory; the engine must be gone. Extents that are held stay readable."""
        await self._supply.close()
        self._table = ExtentTable(poison=False)  # an empty one: nothing is handed out any more

    @property
    def slabs(self) -> tuple[Slab, ...]:
        """The slabs in which extents may lie, the oldest first, without those that are leaving."""
        return self._supply.slabs

    @property
    def shared_slabs(self) -> tuple[Slab, ...]:
        """All slabs that the engine should have: those of extents and leased ones."""
        return (*self._supply.slabs, *self._supply.leased)

    @property
    def on_slab_made(self) -> Callable[[Slab], None] | None:
        """Called with each new slab; when it is set, with all that exist."""
        return self._supply.on_made

    @on_slab_made.setter
    def on_slab_made(self, tell: Callable[[Slab], None] | None) -> None:
        self._supply.on_made = tell
        if tell is not None:
            for slab in self.shared_slabs:
                tell(slab)

    @property
    def on_slab_leaving(self) -> Callable[[Slab], Awaitable[None]] | None:
        """Called with an empty slab, and awaited before that is given back.

        It must return only when no other process maps the slab or has it page-locked: the engine
        has acknowledged that, or was reaped. After an error it is called again.
        """
        return self._supply.on_leaving

    @on_slab_leaving.setter
    def on_slab_leaving(self, tell: Callable[[Slab], Awaitable[None]] | None) -> None:
        self._supply.on_leaving = tell

    def add_evictor(self, evict: Callable[[int], int]) -> None:
        """Register a function that can free extents.

        Args:
            evict: Called with the number of missing bytes. Releases holds of extents whose content
                exists elsewhere, and returns their bytes; 0 if there are none.
        """
        self._evictors.append(evict)

    def try_obtain(self, size_bytes: int, holder: str) -> Hold | None:
        """An extent in pages that are already made, or None; takes a few microseconds.

        Raises:
            ValueError: The size is below 1.
        """
        if size_bytes < 1:
            raise ValueError(f"size_bytes is {size_bytes}; it must be at least 1")
        hold = self._table.take(size_bytes, holder)
        if hold is not None and self._supply.may_grow_ahead:
            self._grow_ahead()
        return hold

    async def obtain(self, size_bytes: int, holder: str) -> Hold:
        """An extent; for it the arena grows, gives back unused slabs, and evicts.

        Raises:
            ArenaFull: There is no place. This does not wait for others to release theirs.
            ValueError: The size is below 1.
        """
        deadline = time.monotonic() + self._patience_seconds
        self._waiting += 1  # a slab made ahead now could take the room of the one that is needed
        try:
            while (hold := self.try_obtain(size_bytes, holder)) is None:
                if not await self._make_place(find_needed_bytes(size_bytes), deadline):
                    self._refusals += 1
                    raise ArenaFull("size in bytes", size_bytes, self._describe_room())
        finally:
            self._waiting -= 1
        self._grow_ahead()
        return hold

    async def lease(self, size_bytes: int) -> Slab:
        """A new slab for one caller alone, without extents.

        Its memory is new, since used memory would show what was in it. It counts against the
        arena's limit until the engine has let go of it after `give_leased_back`.

        Args:
            size_bytes: Its least size.

        Raises:
            ArenaFull: There is no room, and none can be made.
            ValueError: The size is below 1.
        """
        if size_bytes < 1:
            raise ValueError(f"size_bytes is {size_bytes}; it must be at least 1")
        needed_bytes = round_up(size_bytes, HUGE_PAGE_BYTES)
        deadline = time.monotonic() + self._patience_seconds
        self._waiting += 1
        try:
            while not self._is_refusable(needed_bytes, deadline):
                if (slab := await self._supply.lease(needed_bytes, deadline)) is not None:
                    return slab
                if not await self._give_back(needed_bytes, deadline):
                    break
        finally:
            self._waiting -= 1
        self._refusals += 1
        raise ArenaFull("bytes", size_bytes, self._describe_lease_room(needed_bytes))

    def give_leased_back(self, slab: Slab, *, on_closed: Callable[[], None]) -> None:
        """Give a leased slab back as soon as the engine has let go of it.

        Args:
            slab: The slab.
            on_closed: Called when its memory and its descriptor are free.
        """
        self._supply.give_leased_back(slab, on_closed)

    def describe(self) -> ArenaState:
        """The arena's sizes and counts now."""
        leased = self._supply.leased
        slabs = (*self._supply.slabs, *leased, *self._supply.leaving)
        return ArenaState(
            limit_bytes=self.limit_bytes,
            made_bytes=self._supply.made_bytes,
            used_bytes=self._table.used_bytes,
            locked_bytes=sum(slab.size_bytes for slab in slabs if slab.locked),
            slabs=len(slabs),
            extents=self._table.count,
            evictions=self._evictions,
            refusals=self._refusals,
            leases=len(leased),
            leased_bytes=sum(slab.size_bytes for slab in leased),
        )

    def _grow_ahead(self) -> None:
        is_low = self._table.free_bytes < self._usual_bytes // 2
        if is_low and self._supply.may_grow_ahead and not self._waiting:
            self._supply.grow_ahead()

    def _describe_room(self) -> str:
        return (
            f"what the arena has a place for: {self._table.free_bytes} of its "
            f"{self._supply.made_bytes} bytes are free, in pieces, and it may not grow beyond "
            f"{self.limit_bytes} (WAVETRIM_ARENA_BYTES) or the memory that may still be taken"
        )

    def _describe_lease_room(self, needed_bytes: int) -> str:
        most_bytes = min(self.limit_bytes, LARGEST_BYTES)
        if needed_bytes > most_bytes:
            most_bytes -= most_bytes % HUGE_PAGE_BYTES
            return f"at most {most_bytes}, all that a lease may take (WAVETRIM_ARENA_BYTES)"
        idle_bytes = sum(slab.size_bytes for slab in self._table.list_unused())
        free_bytes = self._table.free_bytes
        return (
            f"what the arena may still take: {self._supply.made_bytes - free_bytes} of its "
            f"{self.limit_bytes} bytes (WAVETRIM_ARENA_BYTES) are taken by matrices and other "
            f"leases, {free_bytes - idle_bytes} are free beside matrices, where no lease can be, "
            "and the rest is as much as the system's memory allows"
        )

    def _is_refusable(self, needed_bytes: int, deadline: float) -> bool:
        return needed_bytes > min(self.limit_bytes, LARGEST_BYTES) or time.monotonic() > deadline

    async def _make_place(self, needed_bytes: int, deadline: float) -> bool:
        """Do one thing that may make a place for an extent; False if nothing is left to do."""
        if self._is_refusable(needed_bytes, deadline):
            return False
        grown = await self._supply.grow(needed_bytes, deadline)
        return grown or await self._give_back(needed_bytes, deadline)

    async def _give_back(self, needed_bytes: int, deadline: float) -> bool:
        """Give back unused slabs, or else evict; False if there is nothing to free."""
        given = await self._supply.give_unused_back(needed_bytes, deadline)
        return given or self._evict(needed_bytes)

    def _evict(self, needed_bytes: int) -> bool:
        freed_bytes = 0
        for evict in self._evictors:
            if freed_bytes < needed_bytes and (found := evict(needed_bytes - freed_bytes)) > 0:
                freed_bytes += found
                self._evictions += 1
        return freed_bytes > 0
