"""Where extents lie: within one slab, which has room for as many as it should."""

import numpy as np
import pytest

from wavetrim.service.storage.memory.extent import PAGE_BYTES, ExtentTable
from wavetrim.service.storage.memory.slab import Slab, find_usual_bytes

MIB = 2**20
GIB = 2**30


def place(*slab_bytes):
    """A table of slabs whose memory nobody touches."""
    table = ExtentTable(poison=False)
    for number, size in enumerate(slab_bytes):
        table.add(Slab(number, -1, np.empty(size, np.uint8)))
    return table


def test_no_extent_spans_two_slabs():
    table = place(2 * MIB, 2 * MIB)
    assert table.take(3 * MIB, "test") is None
    holds = [table.take(2 * MIB, "test") for _ in range(2)]
    assert [(hold.extent.slab, hold.extent.offset_bytes) for hold in holds] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("limit", "usual"), [(64 * GIB, GIB), (8 * GIB, GIB), (7 * GIB, 256 * MIB), (0, 256 * MIB)]
)
def test_slabs_of_a_small_arena_are_small_and_have_room_for_headers(limit, usual):
    slab_bytes = find_usual_bytes(limit)
    assert slab_bytes == usual + 2 * MIB
    for count in (1, 2, 4, 64):  # matrices of a power of two, each with its page of header
        table = place(slab_bytes)
        matrix_bytes = PAGE_BYTES + usual // count
        assert None not in [table.take(matrix_bytes, "test") for _ in range(count)]
