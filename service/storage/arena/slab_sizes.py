"""How large slabs are. A slab is one registration with CUDA, so a matrix lies within one."""

from typing import Final

from wavetrim.scheduler.execution.pages import HUGE_PAGE_BYTES

USUAL_BYTES: Final = 2**30
"""A slab of a large arena: in smaller ones large matrices often find no range; chosen."""

SMALL_USUAL_BYTES: Final = 256 * 2**20
"""A slab of a small arena; chosen: on a small machine the first one must be made quickly, and one
that is made ahead must leave memory to others."""

SMALL_ARENA_BYTES: Final = 8 * USUAL_BYTES
"""An arena below this is small, by default on machines with less than 32 GiB; chosen."""

LARGEST_BYTES: Final = 512 * 2**30 - HUGE_PAGE_BYTES
"""CUDA registers less than 512 GiB at once."""


def round_up(size_bytes: int) -> int:
    """The least multiple of 2 MiB, as slabs are, that is at least `size_bytes`."""
    return -(-size_bytes // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES


def find_usual_bytes(limit_bytes: int) -> int:
    """The size of a slab in an arena of this size."""
    return USUAL_BYTES if limit_bytes >= SMALL_ARENA_BYTES else SMALL_USUAL_BYTES


def choose_slab_bytes(
    needed_bytes: int, *, usual_bytes: int, left_bytes: int, room_bytes: int
) -> int:
    """The size of the next slab, or 0 if none may be made.

    Args:
        needed_bytes: Its least size, a multiple of 2 MiB; 0 for a slab that is made ahead of use,
            which is a usual one or none.
        usual_bytes: The size of a usual slab.
        left_bytes: Bytes up to the arena's limit.
        room_bytes: Memory that may still be taken.
    """
    usual = _round_down(min(usual_bytes, left_bytes))
    if not needed_bytes:
        return usual if usual <= room_bytes else 0
    size = max(needed_bytes, min(usual, _round_down(room_bytes)))
    return size if size <= min(left_bytes, room_bytes, LARGEST_BYTES) else 0


def _round_down(size_bytes: int) -> int:
    return size_bytes - size_bytes % HUGE_PAGE_BYTES
