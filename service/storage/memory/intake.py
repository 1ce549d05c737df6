"""Intake: memory for a body that grows with the bytes that have come.

A header of some bytes may announce gigabytes. Memory for all of them is taken at once only while
all bytes that are announced and have not come stay within a credit. Otherwise a body begins with
`FIRST_BYTES`, and gets more when that is full: at most `FACTOR` times what has come. The bytes so
far, about a `FACTOR`th of the whole, are then copied into the larger memory.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.errors import ArenaOff
from wavetrim.service.storage.arena.extent import Hold
from wavetrim.service.threads import run_to_end

FIRST_BYTES: Final = 4 * 2**20
"""Memory of a body before any of its bytes have come; chosen."""

FACTOR: Final = 64
"""Memory per byte that has come: of 1 GiB, 16 MiB come before the rest has memory; chosen."""

_STEP_BYTES: Final = 2**16
"""Steps are multiples of it, so that bytes after a step go to the disk in whole blocks."""

_COPIED_AT_ONCE: Final = 2**18
"""Longest copy that is not worth a thread: it takes about 0.05 ms."""

Fill = Callable[[memoryview], Awaitable[None]]
"""Receives the body's next bytes, as many as the view takes."""


class Intake:
    """Memory of the arena for one body. As a context manager it lets go at the end.

    Args:
        arena: Where the memory lies; None if it is switched off.
        size_bytes: Size of the whole memory.
        holder: What holds it.
        begin_bytes: Bytes at the beginning of the memory that are not the body's.

    Attributes:
        hold: The memory so far; None before there is any.
        filled_bytes: End of the bytes that are filled.
    """

    def __init__(
        self, arena: Arena | None, size_bytes: int, holder: str, *, begin_bytes: int = 0
    ) -> None:
        self._arena = arena
        self._size_bytes = size_bytes
        self._holder = holder
        self._begin_bytes = begin_bytes
        self._credited = False
        self.hold: Hold | None = None
        self.filled_bytes = begin_bytes

    async def open(self, fill: Fill) -> None:
        """Get memory for the whole body; before that, receive as much as makes it trusted.

        Args:
            fill: Called with memory to be filled.

        Raises:
            ArenaFull: There is no memory. What has come so far is in `hold`.
        """
        while self.hold is None or len(self.hold.extent.view) < self._size_bytes:
            length = self._choose_length()
            try:
                hold = await self._obtain(length)
            except BaseException:
                self._end_credit()
                raise
            await self._move(hold)
            if length < self._size_bytes:
                await fill(hold.extent.view[self.filled_bytes : length])
                self.filled_bytes = length

    async def fill_rest(self, fill: Fill) -> None:
        """Receive the rest, into the memory that `open` has found."""
        assert self.hold is not None, "`open` has found memory for all of the body"
        view = self.hold.extent.view
        if self._credited:
            trusted = self._begin_bytes + _find_trusted_bytes(self._size_bytes)
            await fill(view[self.filled_bytes : trusted])
            self.note_filled(trusted)
        if self.filled_bytes < self._size_bytes:
            await fill(view[self.filled_bytes :])

    def note_filled(self, filled_bytes: int) -> None:
        """More has come: once it is enough, the credit is given back."""
        self.filled_bytes = filled_bytes
        if self._credited and self._is_trusted():
            self._end_credit()

    def give_hold(self) -> Hold:
        """The memory, which is the caller's from now on."""
        assert self.hold is not None, "`open` has found memory for all of the body"
        hold, self.hold = self.hold, None
        return hold

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_credit()
        if self.hold is not None:
            self.hold.release()
            self.hold = None

    def _choose_length(self) -> int:
        """The next size of the memory: all, or as much as the bytes so far allow."""
        assert self._arena is not None or self.hold is None
        if self._arena is None or self._size_bytes > self._arena.limit_bytes:
            return self._size_bytes  # it will be refused
        if self._is_trusted():
            return self._size_bytes
        self._credited = self._arena.credit.take(self._size_bytes)
        if self._credited:
            return self._size_bytes
        trusted = self._begin_bytes + _find_trusted_bytes(self._size_bytes)
        return max(FIRST_BYTES, min(FACTOR * self.filled_bytes, trusted))

    def _is_trusted(self) -> bool:
        received_bytes = self.filled_bytes - self._begin_bytes
        return received_bytes >= _find_trusted_bytes(self._size_bytes)

    async def _obtain(self, size_bytes: int) -> Hold:
        if self._arena is None:
            raise ArenaOff(size_bytes)
        hold = self._arena.try_obtain(size_bytes, self._holder)
        return hold or await self._arena.obtain(size_bytes, self._holder)

    async def _move(self, hold: Hold) -> None:
        """Copy the bytes so far into larger memory."""
        before, self.hold = self.hold, hold
        if before is None:
            return
        begin, end = self._begin_bytes, self.filled_bytes
        try:
            source, target = before.extent.view[begin:end], hold.extent.view[begin:end]
            if len(source) > _COPIED_AT_ONCE:
                await run_to_end(copy_bytes, target, source)
            else:
                copy_bytes(target, source)
        finally:
            before.release()

    def _end_credit(self) -> None:
        if self._credited and self._arena is not None:
            self._credited = False
            self._arena.credit.give(self._size_bytes)


def _find_trusted_bytes(size_bytes: int) -> int:
    """Bytes of a body that must have come before it has memory for all without a credit."""
    return max(0, -(-(size_bytes - FIRST_BYTES) // (FACTOR * _STEP_BYTES)) * _STEP_BYTES)


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Copy bytes into memory of the same length."""
    target[:] = source
