"""The arena: hands out extents, grows ahead of use, evicts, and gives memory back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from wavetrim.scheduler.execution.pages import HUGE_PAGE_BYTES
from wavetrim.service.storage.errors import StorageFull
from wavetrim.service.storage.memory.extent import ExtentTable, Hold
from wavetrim.service.storage.memory.memory_limit import read_memory_left
from wavetrim.service.storage.memory.slab import (
    LARGEST_BYTES,
    Slab,
    find_usual_bytes,
    round_down,
    round_up,
)
from wavetrim.service.storage.memory.slabs import RETRY_SECONDS, Slabs
from wavetrim.service.threads import finish

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 10.0
"""How long one `obtain` waits for others, and for slabs that leave; chosen."""


class ArenaFull(StorageFull):
    """There is no memory in the arena, nothing can be evicted, and the arena cannot grow."""


class Arena:
    """Shared memory in slabs, from which extents are taken.

    It begins with one slab, makes the next one when less than half a slab is free, and gives back
    slabs that were unused for a while, except one that is ahead of use. One slab is made at a time,
    so that the memory left for it is known. To be used from one event loop; extents and their holds
    may be used in any thread.

    Args:
        limit_bytes: The most memory to take; with 0 it is always full.
        slab_bytes: Size of a usual slab, a multiple of 2 MiB; None for one that suits the limit.
        poison: Whether freed bytes are overwritten, for tests.
        memory_left: Memory that may still be taken, in bytes. Called in threads.
        idle_seconds: How long an unused slab is kept.

    Attributes:
        limit_bytes: As given.
        evict: Called with the number of missing bytes. Releases holds of extents whose content is
            elsewhere, too, and returns their bytes; 0 if there are none.
        slabs: Makes slabs, and gives them back.
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
        self._idle_seconds = idle_seconds
        self._leased: dict[int, Slab] = {}
        self.slabs = Slabs(limit_bytes, memory_left)
        self._seekers = self._evictions = self._refusals = 0
        self._turn = asyncio.Lock()  # of who makes a slab: one at a time
        self._watch: asyncio.Task[None] | None = None
        self._ahead: asyncio.Task[None] | None = None
        self.evict: Callable[[int], int] = lambda _: 0

    async def start(self) -> None:
        """Make the first slab: a usual one, or as much as the limit and the memory allow.

        Without memory for any, the arena is empty and tries again at the next request.
        """
        self._watch = asyncio.create_task(self._watch_use())
        await self._grow_first(HUGE_PAGE_BYTES)

    async def close(self) -> None:
        """Let go of all memory; the engine must be gone. Extents that are held stay readable."""
        self.slabs.closed = True
        ending = [*filter(None, (self._watch, self._ahead)), *self.slabs.leaving.values()]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        async with self._turn:
            await self.slabs.close(self.shared)
        self._table = ExtentTable(poison=False)  # an empty one: nothing is handed out any more
        self._leased.clear()

    @property
    def shared(self) -> tuple[Slab, ...]:
        """The slabs that the engine should have: those for extents, and leased ones."""
        return (*self._table.slabs.values(), *self._leased.values())

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
        otherwise: Callable[[int], Awaitable[Hold]] | None = None,
    ) -> Hold:
        """An extent; for it the arena grows, gives back unused slabs, and evicts.

        Args:
            size_bytes: Its size.
            holder: What needs it.
            otherwise: Finds as much memory elsewhere if there is none; None to refuse that.

        Raises:
            ArenaFull: There is no memory. This does not wait for others to release theirs.
        """

        async def take(needed_bytes: int) -> Hold | None:
            while (hold := self._table.take(size_bytes, holder)) is None:
                if await finish(self._grow(needed_bytes)) is None:
                    return None
            return hold

        if (hold := self.try_obtain(size_bytes, holder)) is not None:
            return hold
        try:
            hold = await self._find("size in bytes", size_bytes, take)
        except ArenaFull:
            if otherwise is None:
                raise
            return await otherwise(size_bytes)
        self._grow_ahead()
        return hold

    async def lease(self, size_bytes: int) -> Slab:
        """A new slab for one caller alone, without extents.

        Its memory is new, since used memory would show what was in it. It counts against the
        arena's limit until the engine has let go of it after `end_lease`.

        Args:
            size_bytes: Its least size.

        Raises:
            ArenaFull: There is no memory, and none can be freed.
        """

        def undo(slab: Slab | None) -> None:
            if slab is not None:
                self.end_lease(slab, lambda: None)

        async def make(needed_bytes: int) -> Slab | None:
            return await finish(self._grow(needed_bytes, leased=True), undo=undo)

        return await self._find("bytes", size_bytes, make)

    def end_lease(self, slab: Slab, on_closed: Callable[[], None]) -> None:
        """Have the engine let go of a leased slab, then give its memory back."""
        if self._leased.pop(slab.id, None) is not None:
            self.slabs.give_back(slab).add_done_callback(lambda _: on_closed())

    def describe(self) -> dict[str, int]:
        """The arena's sizes and counts now, by the names that `/v1/devices` documents."""
        slabs = (*self.shared, *self.slabs.leaving)
        return {
            "limit_bytes": self.limit_bytes,
            "made_bytes": self.slabs.made_bytes,
            "used_bytes": self._table.used_bytes,
            "locked_bytes": sum(slab.size_bytes for slab in slabs if slab.locked),
            "slabs": len(slabs),
            "extents": self._table.count,
            "evictions": self._evictions,
            "refusals": self._refusals,
            "leases": len(self._leased),
            "leased_bytes": sum(slab.size_bytes for slab in self._leased.values()),
        }

    async def _find(
        self, field: str, size_bytes: int, find: Callable[[int], Awaitable[T | None]]
    ) -> T:
        """Try again while memory can be freed; refused by `field` in the end."""
        needed_bytes = round_up(size_bytes)
        until = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        self._seekers += 1  # a slab made ahead now could take the memory of the one that is needed
        try:
            while needed_bytes <= min(self.limit_bytes, LARGEST_BYTES):
                async with asyncio.timeout_at(until):
                    await self._turn.acquire()
                try:
                    if (found := await find(needed_bytes)) is not None:
                        return found
                    leaving = await self._begin_freeing(needed_bytes)
                finally:
                    self._turn.release()
                if leaving:  # others may find memory meanwhile
                    async with asyncio.timeout_at(until):
                        await asyncio.wait(leaving)
                elif not self.evict(needed_bytes):
                    break
                else:
                    self._evictions += 1
        except TimeoutError:
            pass
        finally:
            self._seekers -= 1
        self._refusals += 1
        limit = (
            f"what the arena may still take: {self._table.free_bytes} of its "
            f"{self.slabs.made_bytes} bytes are free, in pieces, and it may not grow beyond "
            f"{self.limit_bytes} (WAVETRIM_ARENA_BYTES) or the memory that may still be taken"
        )
        raise ArenaFull(field, size_bytes, limit)

    # Growth. Who calls `_grow` has the turn.

    def _grow_ahead(self) -> None:
        """Begin to make a usual slab if little is free; not while memory is looked for."""
        is_growing = self._turn.locked() or (self._ahead is not None and not self._ahead.done())
        is_enough = self._table.free_bytes >= self._usual_bytes // 2
        if is_enough or is_growing or self._seekers:
            return
        left_bytes = self.slabs.left_bytes
        if left_bytes < HUGE_PAGE_BYTES:
            return
        refused_at = self.slabs.refused_at
        if refused_at is None or time.monotonic() >= refused_at + RETRY_SECONDS:
            size_bytes = min(self._usual_bytes, round_down(left_bytes))
            self._ahead = asyncio.create_task(self._grow_first(size_bytes))

    async def _grow_first(self, needed_bytes: int) -> None:
        """Make a slab before anything needs it."""
        async with self._turn:
            await finish(self._grow(needed_bytes))

    async def _grow(self, needed_bytes: int, *, leased: bool = False) -> Slab | None:
        """Make a slab; None if that fails. To be finished for a caller who leaves, too.

        Args:
            needed_bytes: Its least size, a multiple of 2 MiB; it is a usual one if memory is left.
            leased: Whether it has this very size, and no extents.
        """
        slab = await self.slabs.make(needed_bytes, 0 if leased else self._usual_bytes)
        if slab is None:
            return None
        if leased:
            self._leased[slab.id] = slab
        else:
            self._table.add(slab)
        self.slabs.on_made(slab)
        return slab

    # Memory that is given back.

    async def _begin_freeing(self, needed_bytes: int) -> list[asyncio.Task[None]]:
        """Give back unused slabs, if a slab of this size can be made when they have left.

        Returns:
            What is to be waited for; nothing if no memory comes of it.
        """
        left_bytes = await self.slabs.find_left()
        unused, leaving = self._table.list_unused(), self.slabs.leaving
        left_bytes += sum(slab.size_bytes for slab in leaving)
        freed_bytes = left_bytes + sum(slab.size_bytes for slab in unused)
        if self.slabs.closed or freed_bytes < needed_bytes:
            return []
        while unused and not (leaving and left_bytes >= needed_bytes):
            slab = unused.pop(0)
            left_bytes += slab.size_bytes
            self._withdraw(slab)
        return list(leaving.values())

    def _withdraw(self, slab: Slab) -> None:
        if self._table.withdraw(slab):
            self.slabs.give_back(slab)

    async def _watch_use(self) -> None:
        """Give back slabs that were unused for a while: other processes may need the memory.

        One that is ahead of use stays, if it is a usual one.
        """
        while True:
            await asyncio.sleep(self._idle_seconds / 4)
            since = time.monotonic() - self._idle_seconds
            unused = self._table.list_unused()
            large = {slab for slab in unused if slab.size_bytes > self._usual_bytes}
            large_bytes = sum(slab.size_bytes for slab in large)
            spare_bytes = self._table.free_bytes - large_bytes - self._usual_bytes
            for slab in unused:
                if slab.used_at <= since and (slab in large or slab.size_bytes <= spare_bytes):
                    spare_bytes -= 0 if slab in large else slab.size_bytes
                    self._withdraw(slab)
            if not self._table.slabs:
                self._grow_ahead()
