"""Intake: memory for a body that grows with the bytes that have come.

A header of some bytes may announce gigabytes. So memory for all of them is taken when a
`FACTOR`th has come, and until then for so many bytes, at most `FACTOR` times what has come. The
bytes so far are then copied into the larger memory, which costs little: they are few. Where the
arena has no memory, a mapped file of that size takes its place.
"""

import mmap
from collections.abc import Awaitable, Callable
from typing import Final

from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES
from wavetrim.service.storage.memory.arena import Arena
from wavetrim.service.storage.memory.extent import Extent, Hold
from wavetrim.service.storage.memory.mapped_file import MappedFile
from wavetrim.service.threads import run_to_end

FIRST_BYTES: Final = 4 * 2**20
"""The most memory of a body before any of its bytes have come; chosen."""

FACTOR: Final = 64
"""Memory per byte that has come: of 1 GiB, 16 MiB come before the rest has memory; chosen."""

_PIECE_BYTES: Final = 2**20
"""Bytes of a buffer between socket and file; chosen, as memory is scarce where files are used."""

_COPIED_AT_ONCE: Final = 2**18
"""Longest copy that is not worth a thread: it takes about 0.05 ms."""

Fill = Callable[[memoryview], Awaitable[None]]
"""Receives the body's next bytes, as many as the view takes."""


Step = Callable[[int, int], Awaitable[None]]
"""Called with begin and end of what was received."""


class Intake:
    """Memory for one body; `close` lets go of it.

    Args:
        arena: Where the memory lies.
        size_bytes: Size of the whole memory.
        holder: What holds it.
        head: Bytes at the beginning of the memory that are not the body's.
        make_file: Makes a mapped file of a size where the arena has no memory; None to refuse that.

    Attributes:
        hold: The memory so far; None before there is any.
        filled_bytes: End of the bytes that are filled.
    """

    def __init__(
        self,
        arena: Arena,
        size_bytes: int,
        holder: str,
        *,
        head: bytes = b"",
        make_file: Callable[[int], Awaitable[Hold]] | None = None,
    ) -> None:
        self._arena = arena
        self._size_bytes = size_bytes
        self._holder = holder
        self._head = head
        # Once as many have come, the body has memory for all of it.
        self._trusted_end = len(head) + max(0, -(-(size_bytes - FIRST_BYTES) // FACTOR))
        self._make_file = make_file
        self.hold: Hold | None = None
        self.filled_bytes = len(head)

    async def open(self, fill: Fill) -> Extent:
        """Get memory for the whole body; before that, receive as much as makes it trusted.

        Returns:
            The memory, to be held by who needs it for longer than the intake.

        Raises:
            ArenaFull: There is no memory, and a file is not wanted.
            StorageFull: The disk has no space either.
        """
        while True:
            is_trusted = self.filled_bytes >= self._trusted_end
            step_bytes = min(self._trusted_end, max(FIRST_BYTES, FACTOR * self.filled_bytes))
            length = self._size_bytes if is_trusted else step_bytes
            hold = await self._arena.obtain(length, self._holder, self._make_file)
            await self._move(hold)
            if is_trusted:
                return hold.extent
            await self._fill(fill, hold.extent, length)

    async def fill_rest(self, fill: Fill, on_step: Step | None = None) -> None:
        """Receive the rest, into the memory that `open` has found.

        Args:
            fill: Called with memory to be filled.
            on_step: Called after each `WRITE_BYTES`.
        """
        assert self.hold is not None, "`open` has found memory for all of the body"
        await self._fill(fill, self.hold.extent, self._size_bytes, on_step)

    def close(self) -> None:
        """Let go of the memory, which others may hold, too."""
        if self.hold is not None:
            self.hold.release()

    async def _move(self, hold: Hold) -> None:
        """Copy the bytes so far into larger memory."""
        before, self.hold = self.hold, hold
        source = memoryview(self._head)
        if before is not None:
            source = before.extent.view[: self.filled_bytes]
        try:
            await _copy(hold.extent, 0, source)
        finally:
            if before is not None:
                before.release()

    async def _fill(
        self, fill: Fill, extent: Extent, end_bytes: int, on_step: Step | None = None
    ) -> None:
        """Receive bytes up to an end; into a file by a buffer, as the loop must not wait for it."""
        buffer = None
        if isinstance(extent, MappedFile):  # a mapped buffer takes memory only once it is filled
            buffer = memoryview(mmap.mmap(-1, _PIECE_BYTES))
        while (begin := self.filled_bytes) < end_bytes:
            most = WRITE_BYTES if buffer is None else _PIECE_BYTES
            end = min(end_bytes, begin + most)
            piece = extent.view[begin:end] if buffer is None else buffer[: end - begin]
            await fill(piece)
            if buffer is not None:
                await _copy(extent, begin, piece)
            if on_step is not None:
                await on_step(begin, end)
            self.filled_bytes = end


async def _copy(extent: Extent, begin: int, source: memoryview) -> None:
    """Copy bytes into an extent; in a thread, if they are many or the disk may be waited for."""
    target = extent.view[begin : begin + len(source)]
    if isinstance(extent, MappedFile) or len(source) > _COPIED_AT_ONCE:
        await run_to_end(copy_bytes, target, source)
    else:
        copy_bytes(target, source)


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Copy bytes into memory of the same length."""
    target[:] = source
