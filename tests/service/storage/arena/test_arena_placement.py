"""Where extents lie: best fit, alignment, joined free ranges, at the same price for thousands."""

import random
import time

import numpy as np
import pytest

from wavetrim.service.storage.arena.free_ranges import FreeRanges
from wavetrim.service.storage.arena.placement import (
    CHUNK_BYTES,
    Placement,
    find_reserved_bytes,
    join_address,
    split_address,
)
from wavetrim.service.storage.arena.slab_sizes import (
    LARGEST_BYTES,
    choose_slab_bytes,
    find_needed_bytes,
    find_usual_bytes,
)

MIB = 2**20
GIB = 2**30
SLAB_BYTES = 32 * MIB


def take_from(placement: Placement, size_bytes: int) -> int:
    address = placement.take(find_reserved_bytes(size_bytes))
    assert address is not None
    return address


def cut_holes(sizes: list[int]) -> FreeRanges:
    """Free ranges of these sizes, in this order, 10 apart."""
    ranges = FreeRanges()
    ranges.add_region(0, sum(sizes) + 10 * len(sizes))
    holes = []
    for size in sizes:
        hole = ranges.take(size)
        assert hole is not None
        holes.append((hole, size))
        ranges.take(10)
    for hole, size in holes:
        ranges.give(hole, size)
    return ranges


def test_the_smallest_range_that_is_large_enough_is_taken_and_the_lowest_of_equals() -> None:
    ranges = cut_holes([50, 30, 20, 30])
    assert ranges.list_ranges() == [(0, 50), (60, 30), (100, 20), (130, 30)]
    assert ranges.take(25) == 60
    assert ranges.take(25) == 130
    assert ranges.take(25) == 0
    assert ranges.take(25) == 25
    assert ranges.take(25) is None
    assert ranges.take(20) == 100


def test_a_range_joins_both_of_its_neighbours() -> None:
    ranges = FreeRanges()
    ranges.add_region(100, 30)
    first, second, third = (ranges.take(10) for _ in range(3))
    assert (first, second, third) == (100, 110, 120)
    ranges.give(100, 10)
    ranges.give(120, 10)
    assert ranges.list_ranges() == [(100, 10), (120, 10)]
    assert ranges.give(110, 10) == 100
    assert ranges.list_ranges() == [(100, 30)]


def test_regions_that_touch_are_never_joined() -> None:
    ranges = FreeRanges()
    ranges.add_region(0, 10)
    ranges.add_region(10, 10)
    assert ranges.take(11) is None
    assert (ranges.take(10), ranges.take(10)) == (0, 10)
    ranges.give(10, 10)
    ranges.give(0, 10)
    assert ranges.list_ranges() == [(0, 10), (10, 10)]


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


@pytest.mark.parametrize("seed", range(5))
def test_every_range_taken_is_the_one_that_a_search_of_all_finds(seed: int) -> None:
    drawn = random.Random(seed)
    ranges, live = FreeRanges(), list[tuple[int, int]]()
    for region in range(3):
        ranges.add_region(region * 1000, 1000 - drawn.randrange(2) * 100)
    begin = ranges.list_ranges()
    for _ in range(3000):
        if live and drawn.random() < 0.5:
            ranges.give(*live.pop(drawn.randrange(len(live))))
            continue
        size = drawn.randint(1, 120)
        fitting = [(have, at) for at, have in ranges.list_ranges() if have >= size]
        taken = ranges.take(size)
        assert taken == (min(fitting)[1] if fitting else None)
        if taken is not None:
            live.append((taken, size))
        assert ranges.free_bytes == sum(have for _, have in ranges.list_ranges())
    for taken in live:
        ranges.give(*taken)
    assert ranges.list_ranges() == begin


@pytest.mark.parametrize(
    ("size", "reserved"),
    [
        (1, 256),
        (256, 256),
        (16_512, 16_640),
        (65_280, 65_280),
        (65_281, 65_536),
        (65_536, 65_536),
        (65_537, 69_632),
        (MIB + 1, MIB + 4096),
    ],
)
def test_small_extents_take_multiples_of_256_bytes_and_others_whole_pages(
    size: int, reserved: int
) -> None:
    assert find_reserved_bytes(size) == reserved


def test_small_extents_share_a_chunk_and_leave_large_ones_their_space() -> None:
    placement = Placement()
    placement.add_slab(1, 4 * MIB)
    small = [take_from(placement, 1000) for _ in range(200)]
    large = take_from(placement, 3 * MIB)
    assert {address // CHUNK_BYTES for address in small} == {join_address(1, 0) // CHUNK_BYTES}
    assert placement.take(4096 * 16) is None
    placement.give(large, 3 * MIB)
    for address in small:
        placement.give(address, 1024)
    assert take_from(placement, 4 * MIB) == join_address(1, 0)


def test_an_empty_chunk_is_kept_for_the_next_small_extent_until_a_large_one_needs_it() -> None:
    placement = Placement()
    placement.add_slab(1, 2 * MIB)
    placement.give(take_from(placement, 100), 256)
    assert not placement.is_slab_free(1)
    assert placement.take(2 * MIB) is not None
    placement.give(join_address(1, 0), 2 * MIB)
    placement.give(take_from(placement, 100), 256)
    assert placement.remove_slab(1)
    assert placement.free_bytes == 0


def test_no_extent_spans_two_slabs() -> None:
    placement = Placement()
    placement.add_slab(1, 2 * MIB)
    placement.add_slab(2, 2 * MIB)
    assert placement.take(3 * MIB) is None
    assert {split_address(take_from(placement, 2 * MIB)) for _ in range(2)} == {(1, 0), (2, 0)}


def draw_size(drawn: random.Random) -> int:
    largest = drawn.choice([300, 20_000, 64 * 2**10, 64 * 2**10, MIB, 8 * MIB])
    return drawn.randint(1, largest)


@pytest.mark.parametrize("live_bytes", [20 * MIB, 80 * MIB])
def test_100000_random_steps_never_overlap_and_end_as_they_began(live_bytes: int) -> None:
    drawn, placement = random.Random(live_bytes), Placement()
    taken = {number: np.zeros(SLAB_BYTES // 256, bool) for number in range(3)}
    for number in taken:
        placement.add_slab(number, SLAB_BYTES)
    begin, live, used, refused = placement.list_free_ranges(), list[tuple[int, int]](), 0, 0
    for _ in range(100_000):
        if live and (used > live_bytes or drawn.random() < 0.45):
            place = drawn.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            address, reserved = live.pop()
            number, offset = split_address(address)
            taken[number][offset // 256 : (offset + reserved) // 256] = False
            placement.give(address, reserved)
            used -= reserved
            continue
        size = draw_size(drawn)
        reserved = find_reserved_bytes(size)
        found = placement.take(reserved)
        if found is None:
            refused += 1
            continue
        number, offset = split_address(found)
        assert offset % (4096 if size >= 64 * 2**10 else 256) == 0
        assert offset + reserved <= SLAB_BYTES
        part = taken[number][offset // 256 : (offset + reserved) // 256]
        assert not part.any()
        part[:] = True
        live.append((found, reserved))
        used += reserved
        assert placement.free_bytes == 3 * SLAB_BYTES - used
    assert (refused > 0) == (live_bytes > 60 * MIB)
    for address, reserved in live:
        placement.give(address, reserved)
    placement.drop_empty_chunk()
    assert placement.list_free_ranges() == begin


def time_pairs(live: int, pairs: int = 20_000) -> float:
    """Seconds of one take and give, with this number of live extents and holes between them."""
    drawn, placement = random.Random(1), Placement()
    placement.add_slab(1, GIB)
    extents = list[tuple[int, int]]()
    for _ in range(2 * live):
        size = 256 * drawn.randint(1, 100)
        extents.append((take_from(placement, size), size))
    for address, size in extents[::2]:
        placement.give(address, size)
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(pairs):
            address = placement.take(16_640)
            assert address is not None
            placement.give(address, 16_640)
        best = min(best, (time.perf_counter() - begin) / pairs)
    return best


@pytest.mark.serial
def test_10000_live_extents_cost_a_request_hardly_more_than_100() -> None:
    assert time_pairs(10_000) < 4 * time_pairs(100)


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


def test_what_is_needed_are_whole_huge_pages() -> None:
    assert find_needed_bytes(1) == 2 * MIB
    assert find_needed_bytes(2 * MIB) == 2 * MIB
    assert find_needed_bytes(2 * MIB + 1) == 4 * MIB
    assert LARGEST_BYTES % (2 * MIB) == 0
