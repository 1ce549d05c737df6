"""The supply of slabs: made when they are needed or soon will be, given back when idle."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.service.storage.arena.errors import NoRoom
from wavetrim.service.storage.arena.extent import ExtentTable
from wavetrim.service.storage.arena.idle_slabs import IdleSlabs
from wavetrim.service.storage.arena.slab import Slab, make_slab
from wavetrim.service.storage.arena.slab_sizes import choose_slab_bytes, find_needed_bytes
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_MOST_THREADS: Final = 8


class SlabSupply:
    """The slabs of an arena. One is made at a time, so that the memory left for it is known.

    Args:
        table: Places extents in the slabs.
        limit_bytes: The most that all slabs may take.
        usual_bytes: Size of a slab that is not made for one large extent.
        threads: How many make pages; None for the usable cores, at most 8.
        read_room: Memory that may still be taken, in bytes. Called in threads.
        idle_seconds: How long an unused slab is kept.

    Attributes:
        made_bytes: Bytes of all slabs.
        may_grow_ahead: Whether a slab may be made before one is needed.
        on_made: Called with each new slab.
        on_leaving: Called with a slab, and awaited before that is given back.
    """

    def __init__(
        self,
        table: ExtentTable,
        *,
        limit_bytes: int,
        usual_bytes: int,
        threads: int | None,
        read_room: Callable[[], int],
        idle_seconds: float,
    ) -> None:
        self._table = table
        self._limit_bytes = limit_bytes
        self._usual_bytes = usual_bytes
        self._threads = threads or min(_MOST_THREADS, usable_cores())
        self._read_room = read_room
        self._idle_seconds = idle_seconds
        self._numbers = 0
        self._slabs: dict[int, Slab] = {}
        self._leased: dict[int, Slab] = {}
        self._leaving: dict[Slab, asyncio.Task[None]] = {}
        self._growth: asyncio.Task[Any] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closed = False
        self._refused = False
        self.made_bytes = 0
        self.may_grow_ahead = False
        self.on_made: Callable[[Slab], None] | None = None
        self.on_leaving: Callable[[Slab], Awaitable[None]] | None = None

    @property
    def slabs(self) -> tuple[Slab, ...]:
        """The slabs for extents, the oldest first."""
        return tuple(self._slabs.values())

    @property
    def leased(self) -> tuple[Slab, ...]:
        """The slabs that are leased, which have no extents."""
        return tuple(self._leased.values())

    @property
    def leaving(self) -> tuple[Slab, ...]:
        """The slabs that are about to be given back, and are no longer used."""
        return tuple(self._leaving)

    async def start(self) -> None:
        """Make the first slab: a usual one, or as much as the limit and the memory allow."""
        self._watch = asyncio.create_task(self._watch_use())
        least_bytes = find_needed_bytes(1)
        if self._limit_bytes >= least_bytes:
            await asyncio.shield(self._growth or self._begin_growth(least_bytes))

    async def close(self) -> None:
        """Stop all tasks, and let go of all slabs."""
        self._closed, self.may_grow_ahead = True, False
        ending = [task for task in (self._watch, *self._leaving.values()) if task is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, *filter(None, [self._growth]), return_exceptions=True)
        for slab in (*self._slabs.values(), *self._leased.values(), *self._leaving):
            await run_to_end(slab.close)
        self._slabs.clear()
        self._leased.clear()
        self._leaving.clear()
        self.made_bytes = 0

    def grow_ahead(self) -> None:
        """Begin to make a usual slab; `may_grow_ahead` must be true."""
        self._begin_growth(0)

    async def grow(self, needed_bytes: int, deadline: float) -> bool:
        """Make a slab for something of this size, or wait for one that is being made.

        Args:
            needed_bytes: From `find_needed_bytes`.
            deadline: By the monotonic clock.

        Returns:
            Whether to look for a place again: a slab was made, or might be made now.
        """
        if self._closed:
            return False
        if (growth := self._growth) is not None:
            return await _wait([growth], deadline)
        if self._limit_bytes - self.made_bytes < needed_bytes:
            return False
        growth = self._begin_growth(needed_bytes)
        return await _wait([growth], deadline) and growth.result()

    async def lease(self, size_bytes: int, deadline: float) -> Slab | None:
        """Make a slab of exactly this size for one caller; None if there is no room for it.

        Args:
            size_bytes: A multiple of 2 MiB.
            deadline: How long to wait for a slab that is being made, by the monotonic clock.
        """
        while (growth := self._growth) is not None:
            if not await _wait([growth], deadline):
                return None
        if self._closed or self._limit_bytes - self.made_bytes < size_bytes:
            return None
        self.may_grow_ahead = False
        making = self._growth = asyncio.create_task(self._make_leased(size_bytes))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:  # the caller has left before it was made
            making.add_done_callback(self._give_orphan_back)
            raise

    def give_leased_back(self, slab: Slab, on_closed: Callable[[], None]) -> None:
        """Have the engine let go of a leased slab, then give its memory back."""
        if self._leased.pop(slab.id, None) is not None:
            leaving = self._leaving[slab] = asyncio.create_task(self._leave(slab))
            leaving.add_done_callback(lambda _: on_closed())

    async def give_unused_back(self, needed_bytes: int, deadline: float) -> bool:
        """Give back unused slabs, if a slab of this size could then be made.

        Returns:
            Whether anything was given back, also what had begun to leave before.
        """
        if self._closed:
            return False
        made_bytes = self.made_bytes
        room_bytes = await run_to_end(self._read_room)
        if self.made_bytes < made_bytes:
            return True
        unused = sorted(self._table.list_unused(), key=lambda slab: -slab.size_bytes)
        left_bytes = min(room_bytes, self._limit_bytes - self.made_bytes)
        left_bytes += sum(slab.size_bytes for slab in self._leaving)
        if left_bytes + sum(slab.size_bytes for slab in unused) < needed_bytes:
            return False
        for slab in unused:
            if self._leaving and left_bytes >= needed_bytes:
                break
            left_bytes += slab.size_bytes
            self._begin_leaving(slab)
        return bool(self._leaving) and await _wait(self._leaving.values(), deadline)

    def _begin_growth(self, needed_bytes: int) -> asyncio.Task[bool]:
        assert self._growth is None
        self.may_grow_ahead = False
        self._growth = asyncio.create_task(self._grow(needed_bytes))
        return self._growth

    async def _grow(self, needed_bytes: int) -> bool:
        left_bytes = self._limit_bytes - self.made_bytes
        slab = await self._make(lambda: self._make_usual(needed_bytes, left_bytes))
        if slab is None:
            return False
        self._slabs[slab.id] = slab
        self._table.add(slab)
        self._announce(slab)
        return True

    async def _make_leased(self, size_bytes: int) -> Slab | None:
        slab = await self._make(lambda: self._make_slab(size_bytes))
        if slab is not None:
            self._leased[slab.id] = slab
            self._announce(slab)
        return slab

    def _give_orphan_back(self, making: asyncio.Task[Slab | None]) -> None:
        slab = None if making.cancelled() or making.exception() else making.result()
        if slab is not None and not self._closed:
            self.give_leased_back(slab, lambda: None)

    async def _make(self, make: Callable[[], Slab]) -> Slab | None:
        """Make a slab in a thread, and count it; None if that fails."""
        try:
            slab = await run_to_end(make)
        except (NoRoom, OSError) as error:
            if not self._refused:  # log it once, not at each request
                logger.warning("the arena does not grow: %s", error)
            self._refused = True
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._allow_growth_ahead)
            return None
        finally:
            self._growth = None
        if self._closed:
            await run_to_end(slab.close)
            return None
        self._refused = False
        self.made_bytes += slab.size_bytes
        return slab

    def _announce(self, slab: Slab) -> None:
        self._allow_growth_ahead()
        if self.on_made is not None:
            self.on_made(slab)

    def _make_usual(self, needed_bytes: int, left_bytes: int) -> Slab:
        """Make a slab for extents; called in a thread."""
        room_bytes = self._read_room()
        size_bytes = choose_slab_bytes(
            needed_bytes,
            usual_bytes=self._usual_bytes,
            left_bytes=left_bytes,
            room_bytes=room_bytes,
        )
        if not size_bytes:
            raise NoRoom(needed_bytes or self._usual_bytes, min(left_bytes, room_bytes))
        return self._make_slab(size_bytes)

    def _make_slab(self, size_bytes: int) -> Slab:
        """Make a slab of this size; called in a thread."""
        self._numbers += 1
        return make_slab(
            self._numbers,
            size_bytes,
            threads=self._threads,
            read_room=lambda: 0 if self._closed else self._read_room(),
        )

    def _allow_growth_ahead(self) -> None:
        left_bytes = self._limit_bytes - self.made_bytes
        idle = self._growth is None and not self._closed
        self.may_grow_ahead = idle and left_bytes >= find_needed_bytes(1)

    def _begin_leaving(self, slab: Slab) -> None:
        if self._table.withdraw(slab):
            del self._slabs[slab.id]
            self._leaving[slab] = asyncio.create_task(self._leave(slab))

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
        self.made_bytes -= slab.size_bytes
        self._allow_growth_ahead()

    async def _watch_use(self) -> None:
        """Give back slabs that were unused for a while: other processes may need the memory."""
        idle = IdleSlabs(self._idle_seconds, usual_bytes=self._usual_bytes)
        while True:
            await asyncio.sleep(self._idle_seconds / 4)
            unused = self._table.list_unused()
            for slab in idle.find_idle(unused, time.monotonic()):
                placed = (each for each in unused if each.id in self._slabs)
                if idle.is_dispensable(slab, placed, self._table.free_bytes):
                    self._begin_leaving(slab)
            if not self._slabs and self.may_grow_ahead:
                self.grow_ahead()


async def _wait(tasks: Iterable[asyncio.Task[Any]], deadline: float) -> bool:
    """Wait until tasks are done; False if the deadline comes first. The tasks go on then."""
    _, pending = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    return not pending
