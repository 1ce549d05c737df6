"""Intake: memory for a body that grows with its bytes, and all memory of a request.

A header of some bytes may announce gigabytes. So memory for all of them is taken when a
`FACTOR`th has come, and until then for so many bytes, at most `FACTOR` times what has come. The
bytes so far are then copied into the larger memory, which costs little: they are few. Where the
arena has no memory, a mapped file of that size takes its place.
"""

import mmap
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, Self

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES
from wavetrim.service.storage.disk.files import making
from wavetrim.service.storage.matrices.npy import Layout
from wavetrim.service.storage.memory.arena import Arena
from wavetrim.service.storage.memory.extent import PAGE_BYTES, Extent, Hold
from wavetrim.service.storage.memory.mapped_file import MappedFile, map_file
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

Obtain = Callable[[int], Awaitable[Hold]]
"""Finds memory of a size, in the arena or in a file."""

Step = Callable[[int, int], Awaitable[None]]
"""Called with begin and end of what was received."""


class RequestMemory:
    """Memory of one request, for its operands and its result, until its `with` ends.

    Args:
        arena: Where memory lies.
        folder: Where files are made when the arena is full.
        take: Counts bytes against the caller's quota, given those that were taken before; returns a
            function that ends that.

    Attributes:
        extents: All memory so far.
    """

    def __init__(
        self, arena: Arena, folder: Path, take: Callable[[int, int], Callable[[], None]]
    ) -> None:
        self.extents: list[Extent] = []
        self._ends: list[Callable[[], None]] = []  # an ExitStack takes 5 µs more
        self._make_file = partial(
            map_file, holder="request", folder=folder, making=partial(making, folder)
        )
        self._obtain = partial(arena.obtain, holder="request", otherwise=self._make_file)
        self._take = take
        self._taken_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._ends:
            self._ends.pop()()

    async def receive(self, layout: Layout, fill: Fill) -> Operand:
        """Receive a matrix's elements into memory, which grows with them if they are many.

        Args:
            layout: The matrix.
            fill: Receives the next bytes of the body into a view.

        Raises:
            QuotaReached, QuotaTooSmall, StorageFull: As `obtain`.
        """
        self._count(layout.data_bytes)
        await receive_body(layout.data_bytes, fill, obtain=self._obtain, begin=self._keep)
        extent = self.extents[-1]
        return layout.address(extent.slab, extent.offset_bytes)

    async def obtain(self, layout: Layout, head: bytes = b"") -> tuple[Operand, memoryview]:
        """Memory for a matrix, whose elements begin at a page, after some bytes.

        Returns:
            Where the engine finds the matrix; the head, which is written, and the elements.

        Raises:
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory.
        """
        size_bytes = layout.data_bytes
        self._count(len(head) + size_bytes)
        begin = -(-len(head) // PAGE_BYTES) * PAGE_BYTES
        self._keep(await self._obtain(begin + size_bytes))
        extent = self.extents[-1]
        view = extent.view[begin - len(head) : begin + size_bytes]
        view[: len(head)] = head
        return layout.address(extent.slab, extent.offset_bytes + begin), view

    def _count(self, size_bytes: int) -> None:
        if size_bytes:
            self._ends.append(self._take(size_bytes, self._taken_bytes))
            self._taken_bytes += size_bytes

    def _keep(self, hold: Hold) -> None:
        self._ends.append(hold.release)
        self.extents.append(hold.extent)


async def receive_body(
    size_bytes: int,
    fill: Fill,
    *,
    obtain: Obtain,
    begin: Callable[[Hold], Step | None],
    head: bytes = b"",
) -> None:
    """Receive a body into memory that grows with it.

    Args:
        size_bytes: Size of the whole memory.
        fill: Receives the body's next bytes.
        obtain: Finds the memory.
        begin: Takes the memory for all of the body, before most of that has come. What it returns
            is called after each `WRITE_BYTES`.
        head: Bytes at the beginning of the memory that are not the body's.

    Raises:
        Exception: What `obtain`, `fill` or the step has raised.
    """
    # Once as many have come, the body has memory for all of it.
    trusted_end = len(head) + max(0, -(-(size_bytes - FIRST_BYTES) // FACTOR))
    source, holds = memoryview(head), list[Hold]()
    try:
        while (filled := len(source)) < trusted_end:
            length = min(trusted_end, max(FIRST_BYTES, FACTOR * filled))
            extent = await _move(source, holds, await obtain(length))
            await _fill(extent, filled, length, fill)
            source = extent.view[:length]
        extent = await _move(source, holds, await obtain(size_bytes))
        on_step = begin(holds.pop())
    finally:
        for hold in holds:
            hold.release()
    if on_step is not None:
        await on_step(0, filled)
    await _fill(extent, filled, size_bytes, fill, on_step)


async def _move(source: memoryview, holds: list[Hold], hold: Hold) -> Extent:
    """Move what has come into the next memory, and let go of the one before."""
    holds.append(hold)
    if source:
        await _copy(hold.extent, 0, source)
    while len(holds) > 1:
        holds.pop(0).release()
    return hold.extent


async def _fill(
    extent: Extent, begin: int, end: int, fill: Fill, on_step: Step | None = None
) -> None:
    """Receive bytes into a range; into a file by a buffer, as the loop must not wait for it."""
    buffer, most = None, WRITE_BYTES
    if isinstance(extent, MappedFile):
        most = _PIECE_BYTES
        buffer = memoryview(mmap.mmap(-1, most))  # it takes memory only once it is filled
    for first in range(begin, end, most):
        last = min(end, first + most)
        piece = extent.view[first:last] if buffer is None else buffer[: last - first]
        await fill(piece)
        if buffer is not None:
            await _copy(extent, first, piece)
        if on_step is not None:
            await on_step(first, last)


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
