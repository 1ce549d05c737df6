"""The supply of slabs: made when they are needed or soon will be, given back when idle."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.scheduler.execution.pages import HUGE_PAGE_BYTES
from wavetrim.service.storage.arena.extent_table import ExtentTable
from wavetrim.service.storage.arena.slab import NoMemory, Slab, choose_slab_bytes, make_slab
from wavetrim.service.threads import finish, run_to_end

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_MOST_THREADS: Final = 8
"""The most threads that make pages; chosen."""


class SlabSupply:
    """The slabs of an arena. One is made at a time, so that the memory left for it is known.

    Args:
        table: Places extents in the slabs.
        limit_bytes: The most that all slabs may take.
        usual_bytes: Size of a slab that is not made for one large extent.
        memory_left: Memory that may still be taken, in bytes. Called in threads.
        idle_seconds: How long an unused slab is kept.

    Attributes:
        leased: Those that are leased, which have no extents of the table.
        leaving: Those that are about to be given back, and are no longer used.
        made_bytes: Bytes of all slabs.
        on_made: Called with each new slab.
        on_leaving: Called with an unused slab, and awaited before that is given back. It must
            return only when no other process maps the slab or has it page-locked: the engine has
            acknowledged that, or was reaped. After an error it is called again.
    """

    def __init__(
        self,
        table: ExtentTable,
        *,
        limit_bytes: int,
        usual_bytes: int,
        memory_left: Callable[[], int],
        idle_seconds: float,
    ) -> None:
        self._table = table
        self._limit_bytes = limit_bytes
        self._usual_bytes = usual_bytes
        self._memory_left = memory_left
        self._idle_seconds = idle_seconds
        self._numbers = 0
        self._growth: asyncio.Task[Slab | None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closed = False
        self._refused_at: float | None = None
        self.leased: dict[int, Slab] = {}
        self.leaving: dict[Slab, asyncio.Task[None]] = {}
        self.made_bytes = 0
        self.on_made: Callable[[Slab], None] = lambda _: None
        self.on_leaving: Callable[[Slab], Awaitable[None]] | None = None

    @property
    def shared(self) -> tuple[Slab, ...]:
        """The slabs that the engine should have: those for extents, and leased ones."""
        return (*self._table.slabs.values(), *self.leased.values())

    @property
    def left_bytes(self) -> int:
        """Bytes up to the limit."""
        return self._limit_bytes - self.made_bytes

    async def start(self) -> None:
        """Make the first slab: a usual one, or as much as the limit and the memory allow."""
        self._watch = asyncio.create_task(self._watch_use())
        if self.left_bytes >= HUGE_PAGE_BYTES:
            await asyncio.shield(self._growth or self._begin_growth(HUGE_PAGE_BYTES))

    async def close(self) -> None:
        """Stop all tasks, and let go of all slabs."""
        self._closed = True
        ending = [task for task in (self._watch, *self.leaving.values()) if task is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, *filter(None, [self._growth]), return_exceptions=True)
        for slab in (*self.shared, *self.leaving):
            await run_to_end(slab.close)
        self._table.slabs.clear()
        self.leased.clear()
        self.leaving.clear()
        self.made_bytes = 0

    def grow_ahead(self) -> None:
        """Begin to make a usual slab; not while another is made, nor just after a refusal."""
        now, refused_at = time.monotonic(), self._refused_at
        if self._growth is not None or self._closed or self.left_bytes < HUGE_PAGE_BYTES:
            return
        if refused_at is None or now >= refused_at + _RETRY_SECONDS:
            self._begin_growth(0)

    async def grow(self, needed_bytes: int, deadline: float) -> bool:
        """Make a slab for something of this size, or wait for one that is being made.

        Args:
            needed_bytes: A multiple of 2 MiB.
            deadline: By the monotonic clock.

        Returns:
            Whether to look for memory again: a slab was made, or might be made now.
        """
        if self._growth is not None:
            return await _wait([self._growth], deadline)
        if self._closed or self.left_bytes < needed_bytes:
            return False
        growth = self._begin_growth(needed_bytes)
        return await _wait([growth], deadline) and growth.result() is not None

    async def lease(self, size_bytes: int, deadline: float) -> Slab | None:
        """Make a slab of exactly this size for one caller; None if there is no memory for it.

        Args:
            size_bytes: A multiple of 2 MiB.
            deadline: How long to wait for a slab that is being made, by the monotonic clock.
        """
        while self._growth is not None:
            if not await _wait([self._growth], deadline):
                return None
        if self._closed or self.left_bytes < size_bytes:
            return None
        growth = self._begin_growth(size_bytes, leased=True)
        try:
            return await finish(growth)
        except asyncio.CancelledError:  # the caller has left before it was made
            if (slab := growth.result()) is not None:
                self.give_leased_back(slab, lambda: None)
            raise

    def give_leased_back(self, slab: Slab, on_closed: Callable[[], None]) -> None:
        """Have the engine let go of a leased slab, then give its memory back."""
        if self.leased.pop(slab.id, None) is not None:
            leaving = self.leaving[slab] = asyncio.create_task(self._leave(slab))
            leaving.add_done_callback(lambda _: on_closed())

    async def give_unused_back(self, needed_bytes: int, deadline: float) -> bool:
        """Give back unused slabs, if a slab of this size could then be made.

        Returns:
            Whether anything was given back, also what had begun to leave before.
        """
        if self._closed:
            return False
        made_bytes = self.made_bytes
        memory_left_bytes = await run_to_end(self._memory_left)
        if self.made_bytes < made_bytes:
            return True
        unused = sorted(self._table.list_unused(), key=lambda slab: -slab.size_bytes)
        left_bytes = min(memory_left_bytes, self.left_bytes)
        left_bytes += sum(slab.size_bytes for slab in self.leaving)
        if left_bytes + sum(slab.size_bytes for slab in unused) < needed_bytes:
            return False
        for slab in unused:
            if self.leaving and left_bytes >= needed_bytes:
                break
            left_bytes += slab.size_bytes
            self._begin_leaving(slab)
        return bool(self.leaving) and await _wait(self.leaving.values(), deadline)

    def _begin_growth(
        self, needed_bytes: int, *, leased: bool = False
    ) -> asyncio.Task[Slab | None]:
        self._growth = asyncio.create_task(self._grow(needed_bytes, leased=leased))
        return self._growth

    async def _grow(self, needed_bytes: int, *, leased: bool) -> Slab | None:
        """Make a slab in a thread; None if that fails."""
        usual_bytes = 0 if leased else self._usual_bytes
        try:
            slab = await run_to_end(self._make_slab, needed_bytes, usual_bytes, self.left_bytes)
        except (NoMemory, OSError) as error:
            if self._refused_at is None:  # log it once, not at each request
                logger.warning("the arena does not grow: %s", error)
            self._refused_at = time.monotonic()
            return None
        finally:
            self._growth = None
        if self._closed:
            await run_to_end(slab.close)
            return None
        self._refused_at = None
        self.made_bytes += slab.size_bytes
        if leased:
            self.leased[slab.id] = slab
        else:
            self._table.add(slab)
        self.on_made(slab)
        return slab

    def _make_slab(self, needed_bytes: int, usual_bytes: int, left_bytes: int) -> Slab:
        """Make a slab, larger than needed if a usual one is; called in a thread."""
        memory_left_bytes = self._memory_left()
        size_bytes = choose_slab_bytes(
            needed_bytes,
            usual_bytes=usual_bytes,
            left_bytes=left_bytes,
            memory_left_bytes=memory_left_bytes,
        )
        if not size_bytes:
            raise NoMemory(needed_bytes or usual_bytes, min(left_bytes, memory_left_bytes))
        self._numbers += 1
        return make_slab(
            self._numbers,
            size_bytes,
            threads=min(_MOST_THREADS, usable_cores()),
            memory_left=lambda: 0 if self._closed else self._memory_left(),
        )

    def _begin_leaving(self, slab: Slab) -> None:
        if self._table.withdraw(slab):
            self.leaving[slab] = asyncio.create_task(self._leave(slab))

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
        del self.leaving[slab]
        self.made_bytes -= slab.size_bytes

    async def _watch_use(self) -> None:
        """Give back slabs that were unused for a while: other processes may need the memory.

        A usual slab stays free ahead of use; one that was made for a large extent always leaves.
        """
        while True:
            await asyncio.sleep(self._idle_seconds / 4)
            since = time.monotonic() - self._idle_seconds
            unused = self._table.list_unused()
            large = {slab for slab in unused if slab.size_bytes > self._usual_bytes}
            spare_bytes = self._table.free_bytes - sum(slab.size_bytes for slab in large)
            for slab in unused:
                is_spare = slab in large or spare_bytes >= slab.size_bytes + self._usual_bytes
                if slab.used_at <= since and is_spare:
                    spare_bytes -= 0 if slab in large else slab.size_bytes
                    self._begin_leaving(slab)
            if not self._table.slabs:
                self.grow_ahead()


async def _wait(tasks: Iterable[asyncio.Task[Any]], deadline: float) -> bool:
    """Wait until tasks are done; False if the deadline comes first. The tasks go on then."""
    _, pending = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    return not pending
