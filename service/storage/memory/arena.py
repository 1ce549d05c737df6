"""The arena: hands out extents, grows ahead of use, evicts, and gives memory back."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from wavetrim.scheduler.execution.pages import HUGE_PAGE_BYTES
from wavetrim.service.storage.errors import StorageFull
from wavetrim.service.storage.memory.extent import ExtentTable, Hold
from wavetrim.service.storage.memory.memory_limit import read_memory_left
from wavetrim.service.storage.memory.slab import (
    LARGEST_BYTES,
    NoMemory,
    Slab,
    find_usual_bytes,
    make_slab,
    round_down,
    round_up,
)
from wavetrim.service.threads import finish, run_to_end

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 10.0
"""How long one `obtain` waits for others, and for slabs that leave; chosen."""

_RETRY_SECONDS: Final = 1.0


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
        on_made: Called with each new slab.
        on_leaving: Called with an unused slab, and awaited before that is given back. It must
            return only when no other process maps the slab or has it page-locked: the engine has
            acknowledged that, or was reaped. After an error it is called again.
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
        self._memory_left = memory_left
        self._idle_seconds = idle_seconds
        self._leased: dict[int, Slab] = {}
        self._leaving: dict[Slab, asyncio.Task[None]] = {}
        self._made_bytes = self._numbers = 0
        self._seekers = self._evictions = self._refusals = 0
        self._turn = asyncio.Lock()  # of who makes a slab: one at a time
        self._watch: asyncio.Task[None] | None = None
        self._ahead: asyncio.Task[None] | None = None
        self._closed = False
        self._refused_at: float | None = None
        self.evict: Callable[[int], int] = lambda _: 0
        self.on_made: Callable[[Slab], None] = lambda _: None
        self.on_leaving: Callable[[Slab], Awaitable[None]] | None = None

    async def start(self) -> None:
        """Make the first slab: a usual one, or as much as the limit and the memory allow.

        Without memory for any, the arena is empty and tries again at the next request.
        """
        self._watch = asyncio.create_task(self._watch_use())
        await self._grow_first(HUGE_PAGE_BYTES)

    async def close(self) -> None:
        """Let go of all memory; the engine must be gone. Extents that are held stay readable."""
        self._closed = True
        ending = [*filter(None, (self._watch, self._ahead)), *self._leaving.values()]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        async with self._turn:
            for slab in (*self.shared, *self._leaving):
                await run_to_end(slab.close)
        self._table = ExtentTable(poison=False)  # an empty one: nothing is handed out any more
        self._leased.clear()
        self._leaving.clear()
        self._made_bytes = 0

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
                if await self._grow(needed_bytes) is None:
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
            self._begin_leaving(slab).add_done_callback(lambda _: on_closed())

    def describe(self) -> dict[str, int]:
        """The arena's sizes and counts now, by the names that `/v1/devices` documents."""
        slabs = (*self.shared, *self._leaving)
        return {
            "limit_bytes": self.limit_bytes,
            "made_bytes": self._made_bytes,
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
                elif not self._evict(needed_bytes):
                    break
        except TimeoutError:
            pass
        finally:
            self._seekers -= 1
        self._refusals += 1
        limit = (
            f"what the arena may still take: {self._table.free_bytes} of its "
            f"{self._made_bytes} bytes are free, in pieces, and it may not grow beyond "
            f"{self.limit_bytes} (WAVETRIM_ARENA_BYTES) or the memory that may still be taken"
        )
        raise ArenaFull(field, size_bytes, limit)

    # Growth. Who calls `_grow` has the turn.

    def _grow_ahead(self) -> None:
        """Begin to make a usual slab if little is free; not while memory is looked for."""
        is_growing = self._turn.locked() or (self._ahead is not None and not self._ahead.done())
        left_bytes = self.limit_bytes - self._made_bytes
        if is_growing or self._seekers or self._closed or left_bytes < HUGE_PAGE_BYTES:
            return
        if self._table.free_bytes >= self._usual_bytes // 2:
            return
        if self._refused_at is None or time.monotonic() >= self._refused_at + _RETRY_SECONDS:
            size_bytes = min(self._usual_bytes, round_down(left_bytes))
            self._ahead = asyncio.create_task(self._grow_first(size_bytes))

    async def _grow_first(self, needed_bytes: int) -> None:
        """Make a slab before anything needs it."""
        async with self._turn:
            await self._grow(needed_bytes)

    async def _grow(self, needed_bytes: int, *, leased: bool = False) -> Slab | None:
        """Make a slab in a thread, also for a caller who is cancelled; None if that fails.

        Args:
            needed_bytes: Its least size, a multiple of 2 MiB; it is a usual one if memory is left.
            leased: Whether it has this very size, and no extents.
        """
        if self._closed or self.limit_bytes - self._made_bytes < needed_bytes:
            return None
        return await finish(self._make(needed_bytes, 0 if leased else self._usual_bytes))

    async def _make(self, needed_bytes: int, usual_bytes: int) -> Slab | None:
        self._numbers += 1
        try:
            memory_bytes = await run_to_end(self._memory_left)
            most_bytes = min(self.limit_bytes - self._made_bytes, memory_bytes)
            size_bytes = max(needed_bytes, min(usual_bytes, round_down(most_bytes)))
            slab = await run_to_end(make_slab, self._numbers, size_bytes, self._find_left)
        except (NoMemory, OSError) as error:
            if self._refused_at is None:  # log it once, not at each request
                logger.warning("the arena does not grow: %s", error)
            self._refused_at = time.monotonic()
            return None
        self._refused_at = None
        self._made_bytes += slab.size_bytes
        if usual_bytes:
            self._table.add(slab)
        else:
            self._leased[slab.id] = slab
        self.on_made(slab)
        return slab

    def _find_left(self) -> int:
        """Memory that the next pages may take; none once the arena is closed."""
        return 0 if self._closed else self._memory_left()

    # Memory that is given back.

    async def _begin_freeing(self, needed_bytes: int) -> list[asyncio.Task[None]]:
        """Give back unused slabs, if a slab of this size can be made when they have left.

        Returns:
            What is to be waited for; nothing if no memory comes of it.
        """
        memory_left_bytes = await run_to_end(self._memory_left)
        unused = self._table.list_unused()
        left_bytes = min(memory_left_bytes, self.limit_bytes - self._made_bytes)
        left_bytes += sum(slab.size_bytes for slab in self._leaving)
        if self._closed or left_bytes + sum(slab.size_bytes for slab in unused) < needed_bytes:
            return []
        while unused and not (self._leaving and left_bytes >= needed_bytes):
            slab = unused.pop(0)
            left_bytes += slab.size_bytes
            self._withdraw(slab)
        return list(self._leaving.values())

    def _evict(self, needed_bytes: int) -> bool:
        is_evicted = self.evict(needed_bytes) > 0
        self._evictions += is_evicted
        return is_evicted

    def _withdraw(self, slab: Slab) -> None:
        if self._table.withdraw(slab):
            self._begin_leaving(slab)

    def _begin_leaving(self, slab: Slab) -> asyncio.Task[None]:
        self._leaving[slab] = asyncio.create_task(self._leave(slab))
        return self._leaving[slab]

    async def _leave(self, slab: Slab) -> None:
        """Have the engine let go of a slab, then give its memory back."""
        while (tell := self.on_leaving) is not None:
            try:
                await tell(slab)
                break
            except Exception:
                logger.exception("slab %d cannot leave yet", slab.id)
                await asyncio.sleep(_RETRY_SECONDS)
        await run_to_end(slab.punch)
        slab.close()
        del self._leaving[slab]
        self._made_bytes -= slab.size_bytes

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
