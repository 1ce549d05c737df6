"""The pages of mapped files: made beforehand, whole, without a change to what is in them."""

import errno
import itertools
import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler import pages
from wavetrim.scheduler.pages import cut_range, prepare_pages, touch_range

ROWS, COLUMNS = 1031, 4099
"""About 17 MB of float32: some pieces, the last of them ragged."""


def map_file(path, *, offset=128, order="C", dirty=True):
    """A mapped file of random elements behind a header, and the elements."""
    elements = np.random.default_rng(1).random((ROWS, COLUMNS)).astype("float32")
    path.write_bytes(b"h" * offset + elements.tobytes(order))
    mapped = np.memmap(path, "float32", "r+" if dirty else "r", offset, (ROWS, COLUMNS), order)
    return mapped, elements


def count_mapped_bytes(path):
    """Bytes of a file that this process has in its page tables."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    starts = [place for place, line in enumerate(lines) if line.endswith(str(path))]
    rss = [next(line for line in lines[start:] if line.startswith("Rss:")) for start in starts]
    return sum(int(line.split()[1]) * 1024 for line in rss)


@pytest.mark.parametrize("order", ["C", "F"])
def test_all_pages_are_there_when_the_block_ends_and_hold_what_they_held(tmp_path, order):
    out, elements = map_file(tmp_path / "out", order=order)
    a, _ = map_file(tmp_path / "a", dirty=False, order=order)
    assert count_mapped_bytes(tmp_path / "out") < out.nbytes / 2
    with prepare_pages(out, [a], threads=3) as preparation:
        pass
    assert preparation.seconds > 0
    for name in ("out", "a"):
        assert count_mapped_bytes(tmp_path / name) >= out.nbytes
    assert np.array_equal(out, elements)
    assert (tmp_path / "out").read_bytes()[:128] == b"h" * 128


def test_a_new_file_has_its_pages_and_they_are_zero(tmp_path):
    path = tmp_path / "new"
    path.touch()
    os.truncate(path, 128 + 4 * ROWS * COLUMNS)
    out = np.memmap(path, "float32", "r+", 128, (ROWS, COLUMNS))
    with prepare_pages(out, [], threads=2):
        pass
    assert count_mapped_bytes(path) >= out.nbytes
    assert not out.any()


def test_an_old_kernel_has_its_pages_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_advise", lambda *_: errno.EINVAL)
    out, elements = map_file(tmp_path / "out")
    a, _ = map_file(tmp_path / "a", dirty=False)
    with prepare_pages(out, [a], threads=2):
        pass
    for name in ("out", "a"):
        assert count_mapped_bytes(tmp_path / name) >= out.nbytes
    assert np.array_equal(out, elements)


def test_nothing_is_made_that_would_take_half_of_the_free_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_find_free_bytes", lambda: 3 * ROWS * COLUMNS * 4)
    out, _ = map_file(tmp_path / "out")
    a, _ = map_file(tmp_path / "a", dirty=False)
    with prepare_pages(out, [a], threads=2) as preparation:
        pass
    assert preparation.seconds == 0
    assert count_mapped_bytes(tmp_path / "out") < out.nbytes / 2


def test_of_a_large_matrix_only_the_beginning_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "PREPARED_BYTES", 10**6)
    out, _ = map_file(tmp_path / "out")
    with prepare_pages(out, [], threads=2):
        pass
    assert 10**6 <= count_mapped_bytes(tmp_path / "out") < 10**7


def test_a_block_that_fails_fails_as_it_did(tmp_path):
    out, _ = map_file(tmp_path / "out")
    with pytest.raises(KeyError), prepare_pages(out, [], threads=2):
        raise KeyError


@given(begin=st.integers(1, 2**40), count=st.integers(1, 10**9))
def test_ranges_cover_all_bytes_once_and_are_cut_where_huge_pages_begin(begin, count):
    ranges = cut_range(begin, count)
    assert ranges[0][0] == begin
    assert ranges[-1][1] == begin + count
    for (_, end), (next_begin, _) in itertools.pairwise(ranges):
        assert end == next_begin
        assert end % (2 * 2**20) == 0
    assert all(0 < end - first <= 8 * 2**20 for first, end in ranges)


@pytest.mark.parametrize("start", [0, 1, mmap.PAGESIZE - 1])
def test_every_page_is_touched_from_any_first_byte(start):
    pages = mmap.mmap(-1, 5 * mmap.PAGESIZE)
    array = np.frombuffer(pages, np.uint8)
    begin = array.ctypes.data + start
    touch_range(begin, begin + 3 * mmap.PAGESIZE + 1, writable=True)
    assert not array.any()
