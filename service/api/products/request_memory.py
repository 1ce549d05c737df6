"""Memory of one request, for its body and its result, until it has its answer."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from wavetrim.service.storage.arena.errors import ArenaFull
from wavetrim.service.storage.memory.intake import Fill, Intake, copy_bytes
from wavetrim.service.storage.memory.room import Room, RoomHold, Rooms
from wavetrim.service.threads import run_to_end

_ALIGNMENT_BYTES: Final = 64


class RequestMemory:
    """Takes memory for a request, and counts it against the caller's quota.

    Args:
        rooms: Where memory comes from.
        stack: Releases the memory when it is closed.
        take: Counts bytes against the quota, given those that were taken before; returns a function
            that ends that.
    """

    def __init__(
        self, rooms: Rooms, stack: AsyncExitStack, take: Callable[[int, int], Callable[[], None]]
    ) -> None:
        self._rooms = rooms
        self._stack = stack
        self._take = take
        self._held_bytes = 0

    async def receive(self, size_bytes: int, fill: Fill) -> Room:
        """Receive the next bytes of a body into memory of their own, which grows with them.

        Args:
            size_bytes: How many.
            fill: Receives the next bytes of the body into a view.

        Raises:
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory.
        """
        if size_bytes == 0:  # nothing comes, but it has a place
            return await self.obtain(1)
        self._count(size_bytes)
        with self._rooms.open_intake(size_bytes, "request") as intake:
            try:
                await intake.open(fill)
            except ArenaFull:
                return await self._receive_in_file(size_bytes, intake, fill)
            await intake.fill_rest(fill)
            hold = intake.give_hold()
            self._stack.callback(hold.release)
            return hold.extent

    async def obtain(self, size_bytes: int) -> Room:
        """Memory until the request has its answer.

        Raises:
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory.
        """
        self._count(size_bytes)
        hold: RoomHold | None = self._rooms.try_obtain(size_bytes, "request")
        if hold is None:
            hold = await self._rooms.obtain(size_bytes, "request")
        self._stack.callback(hold.release)
        return hold.extent

    def _count(self, size_bytes: int) -> None:
        self._stack.callback(self._take(size_bytes, self._held_bytes))
        self._held_bytes += size_bytes

    async def _receive_in_file(self, size_bytes: int, intake: Intake, fill: Fill) -> Room:
        """Receive the rest into a mapped file, after the bytes that have come already."""
        hold = await self._rooms.make_growing(size_bytes, "request")
        self._stack.callback(hold.release)
        file, filled = hold.extent, intake.filled_bytes
        if intake.hold is not None:
            await run_to_end(file.make_more, filled)
            start = intake.hold.extent.view[:filled]
            await run_to_end(copy_bytes, file.view[:filled], start)
        while filled < size_bytes:
            if file.made_bytes <= filled:
                await run_to_end(file.make_more, filled)
            await fill(file.view[filled : file.made_bytes])
            filled = file.made_bytes
        return file


def lay_out(sizes_bytes: Sequence[int]) -> tuple[list[int], int]:
    """Where matrices of these sizes begin, one after the other, and where the last one ends."""
    places, end = [], 0
    for size_bytes in sizes_bytes:
        places.append(end)
        end += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return places, end
