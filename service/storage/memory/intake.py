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


async def receive_body(
    arena: Arena,
    size_bytes: int,
    fill: Fill,
    *,
    holder: str,
    begin: Callable[[Hold], Step | None],
    head: bytes = b"",
    make_file: Callable[[int], Awaitable[Hold]] | None = None,
) -> None:
    """Receive a body into memory that grows with it.

    Args:
        arena: Where the memory lies.
        size_bytes: Size of the whole memory.
        fill: Receives the body's next bytes.
        holder: What holds the memory.
        begin: Gets a hold of the memory for all of the body, before most of that has come. What it
            returns is called after each `WRITE_BYTES`.
        head: Bytes at the beginning of the memory that are not the body's.
        make_file: Makes a mapped file of a size where the arena has no memory; None to refuse that.

    Raises:
        ArenaFull: There is no memory, and a file is not wanted.
        StorageFull: The disk has no space either.
        Exception: What `fill` or the step has raised.
    """
    # Once as many have come, the body has memory for all of it.
    trusted_end = len(head) + max(0, -(-(size_bytes - FIRST_BYTES) // FACTOR))
    source, holds = memoryview(head), list[Hold]()
    try:
        while True:
            filled = len(source)
            is_trusted = filled >= trusted_end
            length = (
                size_bytes if is_trusted else min(trusted_end, max(FIRST_BYTES, FACTOR * filled))
            )
            holds.append(await arena.obtain(length, holder, make_file))
            extent = holds[-1].extent
            await _copy(extent, 0, source)
            while len(holds) > 1:
                holds.pop(0).release()
            if is_trusted:
                break
            await _fill(extent, filled, length, fill)
            source = extent.view[:length]
        on_step = begin(extent.hold(holder))
    finally:
        for hold in holds:
            hold.release()
    if on_step is not None:
        await on_step(0, filled)
    await _fill(extent, filled, size_bytes, fill, on_step)


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
