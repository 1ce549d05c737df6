"""Where extents lie: large ones in slabs, small ones in chunks that lie in slabs.

Extents of 64 KiB and more begin at multiples of 4096 bytes, because O_DIRECT needs that alignment,
and page-locked copies of whole pages are the fastest. A smaller one would waste most of a page, so
it begins at a multiple of 256, which suits every element type, cache lines and loads of GPUs. Small
extents share chunks of 1 MiB: thousands of them come and go without fragmenting the space of the
large ones.

Numbers only. An address here is `slab number << 40 | offset`: slabs are smaller, so no two touch.
"""

from typing import Final

from wavetrim.service.storage.arena.free_ranges import FreeRanges

SMALL_BYTES: Final = 64 * 2**10
"""Extents that take less are small; chosen."""

CHUNK_BYTES: Final = 2**20
"""Size of a chunk for small extents: room for 16 of the largest; chosen."""

PAGE_BYTES: Final = 4096
"""Alignment of large extents: O_DIRECT's, on every file system."""

SMALL_ALIGNMENT_BYTES: Final = 256

_SLAB_SHIFT: Final = 40
_OFFSET_MASK: Final = (1 << _SLAB_SHIFT) - 1


def round_up(size_bytes: int, multiple: int) -> int:
    """The least multiple that is at least `size_bytes`."""
    return -(-size_bytes // multiple) * multiple


def find_reserved_bytes(size_bytes: int) -> int:
    """The bytes that an extent of this size takes; below 64 KiB it is a small one."""
    reserved = round_up(size_bytes, SMALL_ALIGNMENT_BYTES)
    return reserved if reserved < SMALL_BYTES else round_up(reserved, PAGE_BYTES)


def split_address(address: int) -> tuple[int, int]:
    """Number of the slab, and offset in it."""
    return address >> _SLAB_SHIFT, address & _OFFSET_MASK


def join_address(number: int, offset_bytes: int) -> int:
    """The address of a place in a slab."""
    return number << _SLAB_SHIFT | offset_bytes


class Placement:
    """Gives extents their places. Not thread-safe."""

    def __init__(self) -> None:
        self._large = FreeRanges()
        self._small = FreeRanges()
        self._chunks: set[int] = set()
        self._empty_chunk: int | None = None  # one is kept for the next small extent

    @property
    def free_bytes(self) -> int:
        """Free bytes, including those in chunks."""
        return self._large.free_bytes + self._small.free_bytes

    def add_slab(self, number: int, size_bytes: int) -> None:
        """Begin to place extents in a slab, whose size is a multiple of 4096 bytes."""
        self._large.add_region(number << _SLAB_SHIFT, size_bytes)

    def remove_slab(self, number: int) -> bool:
        """Stop placing extents in a slab; False if one lies in it."""
        self.drop_empty_chunk(number)
        return self._large.remove_region(number << _SLAB_SHIFT)

    def is_slab_free(self, number: int) -> bool:
        """Whether nothing lies in a slab: no extent, and no empty chunk."""
        return self._large.is_region_free(number << _SLAB_SHIFT)

    def take(self, reserved_bytes: int) -> int | None:
        """The address of a new extent, or None if there is no place.

        Args:
            reserved_bytes: From `find_reserved_bytes`.
        """
        if reserved_bytes >= SMALL_BYTES:
            return self._take_large(reserved_bytes)
        address = self._small.take(reserved_bytes)
        if address is None:
            chunk = self._take_large(CHUNK_BYTES)
            if chunk is None:
                return None
            self._small.add_region(chunk, CHUNK_BYTES)
            address = self._small.take(reserved_bytes)
        elif address == self._empty_chunk:
            self._empty_chunk = None
        return address

    def give(self, address: int, reserved_bytes: int) -> None:
        """Free an extent."""
        if reserved_bytes >= SMALL_BYTES:
            self._large.give(address, reserved_bytes)
            return
        begin = self._small.give(address, reserved_bytes)
        if self._small.is_region_free(begin):
            if self._empty_chunk is not None:
                self._return_chunk(self._empty_chunk)
            self._empty_chunk = begin

    def drop_empty_chunk(self, number: int | None = None) -> None:
        """Give up the chunk that is kept for the next small extent.

        Args:
            number: Only if it lies in this slab; None for any slab.
        """
        chunk = self._empty_chunk
        if chunk is not None and number in {None, chunk >> _SLAB_SHIFT}:
            self._return_chunk(chunk)
            self._empty_chunk = None

    def list_free_ranges(self) -> list[tuple[int, int]]:
        """All free ranges as (address, size), by address; those in chunks are separate."""
        return sorted((*self._large.list_ranges(), *self._small.list_ranges()))

    def _take_large(self, reserved_bytes: int) -> int | None:
        address = self._large.take(reserved_bytes)
        if address is None and self._empty_chunk is not None:
            self.drop_empty_chunk()
            address = self._large.take(reserved_bytes)
        return address

    def _return_chunk(self, chunk: int) -> None:
        self._small.remove_region(chunk)
        self._large.give(chunk, CHUNK_BYTES)
