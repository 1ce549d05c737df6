"""Where extents lie: best fit in one slab, joined free ranges; how large slabs are."""

import pytest

from wavetrim.service.storage.arena.free_ranges import FreeRanges
from wavetrim.service.storage.arena.slab import choose_slab_bytes, find_usual_bytes
from wavetrim.service.storage.matrices.npy import PAGE_BYTES

MIB = 2**20
GIB = 2**30


def test_no_extent_spans_two_slabs():
    ranges = FreeRanges()
    ranges.add_region(0, 2 * MIB)
    ranges.add_region(2 * MIB, 2 * MIB)  # they touch, and are never joined
    assert ranges.take(3 * MIB) is None
    assert {ranges.take(2 * MIB) for _ in range(2)} == {0, 2 * MIB}


@pytest.mark.parametrize(
    ("limit", "usual"), [(64 * GIB, GIB), (8 * GIB, GIB), (7 * GIB, 256 * MIB), (0, 256 * MIB)]
)
def test_slabs_of_a_small_arena_are_small(limit, usual):
    assert find_usual_bytes(limit) == usual + 2 * MIB


@pytest.mark.parametrize("limit", [2 * GIB, 64 * GIB])
@pytest.mark.parametrize("share", [1, 2, 4, 8, 16])
def test_a_slab_has_all_matrices_of_a_power_of_two_with_their_headers(limit, share):
    slab_bytes = find_usual_bytes(limit)
    ranges = FreeRanges()
    ranges.add_region(0, slab_bytes)
    matrix_bytes = PAGE_BYTES + (slab_bytes - 2 * MIB) // share
    assert None not in [ranges.take(matrix_bytes) for _ in range(share)]


@pytest.mark.parametrize(
    ("needed", "left", "room", "size"),
    [
        (2 * MIB, 8 * GIB, 20 * GIB, GIB),  # a usual slab
        (2 * MIB, 300 * MIB + 5, 20 * GIB, 300 * MIB),  # what the limit leaves
        (2 * MIB, 8 * GIB, 100 * MIB + 5, 100 * MIB),  # what the memory leaves
        (2 * MIB, 8 * GIB, MIB, 0),
        (3 * GIB, 8 * GIB, 20 * GIB, 3 * GIB),  # a slab of its own
        (3 * GIB, 8 * GIB, 2 * GIB, 0),
        (3 * GIB, 2 * GIB, 20 * GIB, 0),
        (600 * GIB, 10**15, 10**15, 0),  # more than CUDA registers at once
        (0, 8 * GIB, GIB, GIB),  # ahead of use
        (0, 300 * MIB, GIB, 300 * MIB),
        (0, 8 * GIB, GIB - 1, 0),
    ],
)
def test_a_slab_is_as_large_as_need_limit_and_memory_say(needed, left, room, size):
    chosen = choose_slab_bytes(needed, usual_bytes=GIB, left_bytes=left, memory_left_bytes=room)
    assert chosen == size
