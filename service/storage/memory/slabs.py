"""All slabs of an arena: made within its limit, and given back once no process has them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from wavetrim.service.storage.memory.slab import NoMemory, Slab, make_slab, round_down
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""Pause after a slab could not be made ahead of use, or given back; chosen."""


class Slabs:
    """Makes slabs, one at a time, and gives them back.

    Args:
        limit_bytes: The most memory to take.
        memory_left: Memory that may still be taken, in bytes. Called in threads.

    Attributes:
        made_bytes: Memory of all slabs, also of those that are leaving.
        leaving: Those that are being given back.
        closed: Whether no slab is made any more.
        refused_at: When the last one could not be made; None if it was.
        on_made: Called with each new slab, by the arena.
        on_leaving: Called with an unused slab, and awaited before that is given back. It must
            return only when no other process maps the slab or has it page-locked: the engine has
            acknowledged that, or was reaped. After an error it is called again.
    """

    def __init__(self, limit_bytes: int, memory_left: Callable[[], int]) -> None:
        self._limit_bytes, self._memory_left = limit_bytes, memory_left
        self._numbers = 0
        self.made_bytes = 0
        self.leaving: dict[Slab, asyncio.Task[None]] = {}
        self.closed = False
        self.refused_at: float | None = None
        self.on_made: Callable[[Slab], None] = lambda _: None
        self.on_leaving: Callable[[Slab], Awaitable[None]] | None = None

    @property
    def left_bytes(self) -> int:
        """Memory that the limit leaves; nothing once it is closed."""
        return 0 if self.closed else self._limit_bytes - self.made_bytes

    async def find_left(self) -> int:
        """Memory that the limit leaves and that may still be taken."""
        return min(await run_to_end(self._memory_left), self.left_bytes)

    async def make(self, needed_bytes: int, usual_bytes: int = 0) -> Slab | None:
        """Make a slab in a thread; None if that fails. To be finished for a caller who leaves, too.

        Args:
            needed_bytes: Its least size, a multiple of 2 MiB.
            usual_bytes: Its size if memory is left for that.
        """
        if self.left_bytes < needed_bytes:
            return None
        self._numbers += 1
        try:
            most_bytes = round_down(await self.find_left())
            size_bytes = max(needed_bytes, min(usual_bytes, most_bytes))
            slab = await run_to_end(make_slab, self._numbers, size_bytes, self._read_left)
        except (NoMemory, OSError) as error:
            if self.refused_at is None:  # log it once, not at each request
                logger.warning("the arena does not grow: %s", error)
            self.refused_at = time.monotonic()
            return None
        self.refused_at = None
        self.made_bytes += slab.size_bytes
        return slab

    def _read_left(self) -> int:
        """Memory that the next pages may take; none once it is closed."""
        return 0 if self.closed else self._memory_left()

    def give_back(self, slab: Slab) -> asyncio.Task[None]:
        """Have all processes let go of a slab, then give its memory back."""
        self.leaving[slab] = asyncio.create_task(self._leave(slab))
        return self.leaving[slab]

    async def _leave(self, slab: Slab) -> None:
        while (tell := self.on_leaving) is not None:
            try:
                await tell(slab)
                break
            except Exception:
                logger.exception("slab %d cannot leave yet", slab.id)
                await asyncio.sleep(RETRY_SECONDS)
        await run_to_end(slab.punch)
        slab.close()
        del self.leaving[slab]
        self.made_bytes -= slab.size_bytes

    async def close(self, slabs: Iterable[Slab]) -> None:
        """Let go of slabs, and of those that are leaving; no process has them any more."""
        for slab in (*slabs, *self.leaving):
            await run_to_end(slab.close)
        self.leaving.clear()
        self.made_bytes = 0
