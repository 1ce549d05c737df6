"""Where extents lie: best fit in one slab, joined free ranges; how large slabs are."""

import random
from itertools import pairwise

import pytest

from wavetrim.service.storage.arena.free_ranges import FreeRanges
from wavetrim.service.storage.arena.slab_sizes import choose_slab_bytes, find_usual_bytes

MIB = 2**20
GIB = 2**30


def test_a_region_is_removed_only_when_all_of_it_is_free() -> None:
    ranges = FreeRanges()
    ranges.add_region(0, 10)
    ranges.take(1)
    assert not ranges.remove_region(0)
    ranges.give(0, 1)
    assert ranges.remove_region(0)
    assert ranges.free_bytes == 0
    assert ranges.take(1) is None
    assert not ranges.remove_region(0)


def test_no_extent_spans_two_slabs() -> None:
    ranges = FreeRanges()
    ranges.add_region(0, 2 * MIB)
    ranges.add_region(2 * MIB, 2 * MIB)  # they touch, and are never joined
    assert ranges.take(3 * MIB) is None
    assert {ranges.take(2 * MIB) for _ in range(2)} == {0, 2 * MIB}


@pytest.mark.parametrize("live_bytes", [20 * MIB, 80 * MIB])
def test_100000_random_steps_never_overlap_and_end_as_they_began(live_bytes: int) -> None:
    drawn, ranges = random.Random(live_bytes), FreeRanges()
    for number in range(3):
        ranges.add_region(number << 40, 32 * MIB)
    taken = dict[int, int]()
    used = refused = 0
    for _ in range(100_000):
        if taken and (used > live_bytes or drawn.random() < 0.45):
            address = drawn.choice(list(taken)[:50])
            used -= taken[address]
            ranges.give(address, taken.pop(address))
            continue
        size = 4096 * drawn.randint(1, drawn.choice([1, 16, 256, 2048]))
        found = ranges.take(size)
        if found is None:
            refused += 1
            continue
        taken[found] = size
        used += size
        assert ranges.free_bytes == 96 * MIB - used
    ends = [(address, address + size) for address, size in sorted(taken.items())]
    assert all(end <= after for (_, end), (after, _) in pairwise(ends))
    assert (refused > 0) == (live_bytes > 60 * MIB)
    for address, size in taken.items():
        ranges.give(address, size)
    assert {ranges.take(32 * MIB) for _ in range(3)} == {0, 1 << 40, 2 << 40}


@pytest.mark.parametrize(
    ("limit", "usual"), [(64 * GIB, GIB), (8 * GIB, GIB), (7 * GIB, 256 * MIB), (0, 256 * MIB)]
)
def test_slabs_of_a_small_arena_are_small(limit: int, usual: int) -> None:
    assert find_usual_bytes(limit) == usual


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
def test_a_slab_is_as_large_as_need_limit_and_memory_say(
    needed: int, left: int, room: int, size: int
) -> None:
    chosen = choose_slab_bytes(needed, usual_bytes=GIB, left_bytes=left, room_bytes=room)
    assert chosen == size
