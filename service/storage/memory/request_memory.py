"""Memory of one request, for its operands and its result, until it has its answer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from wavetrim.service.storage.disk.files import making
from wavetrim.service.storage.memory.arena import Arena
from wavetrim.service.storage.memory.extent import PAGE_BYTES, Extent, Hold
from wavetrim.service.storage.memory.intake import Fill, receive_body
from wavetrim.service.storage.memory.mapped_file import map_file


class Piece(NamedTuple):
    """Memory of one matrix.

    Attributes:
        slab: Where the engine finds it: a slab, or the path of a mapped file.
        offset_bytes: Where the elements begin there.
        view: The elements' bytes.
        whole: The same, with the head in front of them.
    """

    slab: int | str
    offset_bytes: int
    view: memoryview
    whole: memoryview


class RequestMemory:
    """Finds memory in the arena, or in files if that is full; released at the end of its `with`.

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
        self._arena = arena
        self._make_file = partial(
            map_file, holder="request", folder=folder, making=partial(making, folder)
        )
        self._take = take
        self._taken_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._ends:
            self._ends.pop()()

    async def receive(self, size_bytes: int, fill: Fill) -> Piece:
        """Receive the next bytes of a body into memory, which grows with them if they are many.

        Args:
            size_bytes: How many.
            fill: Receives the next bytes of the body into a view.

        Raises:
            QuotaReached, QuotaTooSmall, StorageFull: As `obtain`.
        """
        self._count(size_bytes)
        await receive_body(
            self._arena, size_bytes, fill,
            holder="request", begin=self._keep, make_file=self._make_file,
        )  # fmt: skip
        return _find_piece(self.extents[-1], 0, size_bytes)

    async def obtain(self, size_bytes: int, *, head: bytes = b"") -> Piece:
        """Memory for a matrix, behind some bytes that are written into it.

        Raises:
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory.
        """
        self._count(len(head) + size_bytes)
        begin = -(-len(head) // PAGE_BYTES) * PAGE_BYTES
        hold = await self._arena.obtain(begin + size_bytes, "request", self._make_file)
        self._keep(hold)
        piece = _find_piece(hold.extent, begin, size_bytes, head_bytes=len(head))
        piece.whole[: len(head)] = head
        return piece

    def _count(self, size_bytes: int) -> None:
        if size_bytes:
            self._ends.append(self._take(size_bytes, self._taken_bytes))
            self._taken_bytes += size_bytes

    def _keep(self, hold: Hold) -> None:
        self._ends.append(hold.release)
        self.extents.append(hold.extent)


def _find_piece(extent: Extent, begin: int, size_bytes: int, head_bytes: int = 0) -> Piece:
    whole = extent.view[begin - head_bytes : begin + size_bytes]
    return Piece(extent.slab, extent.offset_bytes + begin, whole[head_bytes:], whole)
