"""Blocks cover C once, whatever its shape and however many threads there are."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.cpu.blocks import count_shares, cut_blocks, cut_depth, cut_range
from wavetrim.native.tuned import MAX_BLOCK_FLOPS

sizes = st.integers(1, 700)


@given(m=sizes, n=sizes, k=st.integers(1, 10**6), threads=st.integers(1, 64))
def test_blocks_cover_every_element_of_c_once(m: int, n: int, k: int, threads: int) -> None:
    covered = np.zeros((m, n), np.int8)
    for block in cut_blocks(m, n, k, threads=threads):
        assert (block.depth_start, block.depth_stop) == (0, k)
        assert block.elements > 0
        covered[block.rows, block.columns] += 1
    assert np.all(covered == 1)


@given(size=st.integers(1, 10**6), parts=st.integers(1, 500), quantum=st.integers(1, 64))
def test_ranges_follow_each_other_on_multiples_of_the_quantum(
    size: int, parts: int, quantum: int
) -> None:
    ranges = cut_range(size, parts, quantum)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == size
    assert len(ranges) <= parts
    for (_, stop), (start, _) in pairwise(ranges):
        assert stop == start
        assert start % quantum == 0
    lengths = [stop - start for start, stop in ranges]
    assert min(lengths) > 0
    assert max(lengths[:-1], default=0) - min(lengths[:-1], default=0) <= quantum


@given(
    m=st.integers(1, 10**5),
    n=st.integers(1, 10**5),
    k=st.integers(1, 10**5),
    threads=st.integers(1, 64),
)
def test_a_block_with_a_temporary_stays_near_its_limit(
    m: int, n: int, k: int, threads: int
) -> None:
    limit = 1 << 18
    largest = max(
        block.elements for block in cut_blocks(m, n, k, threads=threads, max_elements=limit)
    )
    # Edges move to multiples of the quanta, and few rows or columns leave little to choose.
    assert largest <= 2 * limit + 64 * max(m, n)


def test_few_rows_against_a_wide_b_become_column_blocks() -> None:
    blocks = cut_blocks(64, 8192, 4096, threads=16)
    assert {(block.row_start, block.row_stop) for block in blocks} == {(0, 64)}
    assert len(blocks) >= 16


def test_few_columns_become_row_blocks() -> None:
    blocks = cut_blocks(8192, 32, 4096, threads=16)
    assert {(block.column_start, block.column_stop) for block in blocks} == {(0, 32)}
    assert len(blocks) >= 16


def test_a_square_product_is_cut_both_ways_into_rounds_of_all_threads() -> None:
    blocks = cut_blocks(2048, 2048, 2048, threads=16)
    assert len(blocks) % 16 == 0
    assert len({block.row_start for block in blocks}) > 1
    assert len({block.column_start for block in blocks}) > 1


def test_a_small_product_stays_one_block() -> None:
    assert len(cut_blocks(64, 64, 64, threads=16)) == 1


def test_threads_share_a_product_for_its_bytes_as_well_as_for_its_operations() -> None:
    assert [count_shares(size, size, size, 16) for size in (64, 160, 256, 512)] == [1, 1, 9, 16]
    assert count_shares(32, 3823, 83, 16) > count_shares(32, 300, 1000, 16)
    assert count_shares(4, 35, 1236, 16) == 1
    for m, n, k in [(18, 26714, 150), (891, 25, 4235), (15359, 26, 80), (25, 97, 9517)]:
        assert count_shares(m, n, k, 16) == 16
        cut = cut_depth(m, n, k, threads=16) or cut_blocks(m, n, k, threads=16)
        assert len(cut) >= 16


def test_a_large_product_has_blocks_short_enough_to_be_cancelled() -> None:
    for block in cut_blocks(20_000, 20_000, 20_000, threads=2):
        assert 2 * block.elements * 20_000 <= 2 * MAX_BLOCK_FLOPS


@given(m=sizes, n=sizes, k=st.integers(1, 10**6), threads=st.integers(1, 64))
def test_k_is_cut_only_where_c_is_small_and_is_covered_once(
    m: int, n: int, k: int, threads: int
) -> None:
    parts = cut_depth(m, n, k, threads=threads)
    if not parts:
        return
    assert 2 <= len(parts) <= threads
    assert len(parts) * m * n * 2 <= (m + n) * k
    assert all((part.rows, part.columns) == (slice(0, m), slice(0, n)) for part in parts)
    assert [part.depth_start for part in parts] == [0, *(part.depth_stop for part in parts[:-1])]
    assert parts[-1].depth_stop == k


def test_a_small_c_with_a_long_k_is_cut_along_k() -> None:
    assert len(cut_depth(16, 16, 10**6, threads=8)) == 8


def test_a_large_c_is_never_cut_along_k() -> None:
    assert cut_depth(4096, 4096, 10**6, threads=8) == []


def test_a_narrow_product_gives_each_thread_equally_many_blocks() -> None:
    assert len(cut_blocks(1000, 256, 2560, threads=14)) % 14 == 0
    for rows in range(3000, 40_000, 700):
        assert len(cut_blocks(rows, 256, 256, threads=14)) % 14 == 0


def test_a_product_with_k_1_occupies_all_threads() -> None:
    assert len(cut_blocks(8192, 8192, 1, threads=14)) >= 14
