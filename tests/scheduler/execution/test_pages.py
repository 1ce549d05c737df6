"""Pages are made in ranges that cover the memory, and keep their bytes."""

import itertools
import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.execution.pages import cut_range, populate_range, touch_range

SIZE_BYTES = 17_000_000
"""Several ranges, the last one ragged."""


def count_mapped_bytes(path):
    """Bytes of a file that this process has in its page tables."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    starts = [place for place, line in enumerate(lines) if line.endswith(str(path))]
    rss = [next(line for line in lines[start:] if line.startswith("Rss:")) for start in starts]
    return sum(int(line.split()[1]) * 1024 for line in rss)


def populate(begin, end):
    assert populate_range(begin, end)


@pytest.mark.parametrize("make", [populate, touch_range])
def test_populated_pages_are_mapped_and_keep_their_bytes(tmp_path, make):
    path = tmp_path / "file"
    path.write_bytes(b"head" + os.urandom(1000))
    os.truncate(path, SIZE_BYTES)
    held = path.read_bytes()
    memory = np.memmap(path, np.uint8, "r+")
    assert count_mapped_bytes(path) < SIZE_BYTES / 2
    for begin, end in cut_range(memory.ctypes.data, SIZE_BYTES):
        make(begin, end)
    assert count_mapped_bytes(path) >= SIZE_BYTES
    assert path.read_bytes() == held


@given(begin=st.integers(1, 2**40), count=st.integers(1, 10**9))
def test_ranges_cover_all_bytes_once_and_are_cut_at_huge_pages(begin, count):
    ranges = cut_range(begin, count)
    assert ranges[0][0] == begin
    assert ranges[-1][1] == begin + count
    for (_, end), (next_begin, _) in itertools.pairwise(ranges):
        assert end == next_begin
        assert end % (2 * 2**20) == 0
    assert all(0 < end - first <= 8 * 2**20 for first, end in ranges)


@pytest.mark.parametrize("start", [0, 1, mmap.PAGESIZE - 1])
def test_touching_from_any_first_byte_changes_nothing(start):
    pages = mmap.mmap(-1, 5 * mmap.PAGESIZE)
    array = np.frombuffer(pages, np.uint8)
    begin = array.ctypes.data + start
    touch_range(begin, begin + 3 * mmap.PAGESIZE + 1)
    assert not array.any()
