"""Rows are cut into panels of whole waves, which shrink at the end."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.kernels.schedule.buffers import pitch_items
from wavetrim.kernels.schedule.panels import PanelProblem, cut_rows, round_to_waves

problems = st.builds(
    PanelProblem,
    m=st.integers(1, 10**6),
    n=st.integers(1, 40_000),
    k=st.integers(1, 40_000),
    item_bytes=st.sampled_from([2, 4, 8]),
    tile_m=st.sampled_from([4, 32, 128]),
    tile_n=st.sampled_from([4, 32, 128, 256]),
    tile_k=st.sampled_from([4, 8, 32]),
    slots=st.sampled_from([4, 8, 40, 132]),
    splits_tail=st.booleans(),
    staged=st.booleans(),
)


def square(size: int, **changes: int) -> PanelProblem:
    values = {"m": size, "n": size, "k": size, "item_bytes": 4, "slots": 132}
    return PanelProblem(**values | {"tile_m": 128, "tile_n": 128, "tile_k": 8} | changes)


@given(problem=problems, data=st.data())
def test_panels_follow_each_other_and_cover_all_rows(
    problem: PanelProblem, data: st.DataObject
) -> None:
    first, rows = (data.draw(st.integers(1, 5000)) + problem.m // 500 for _ in range(2))
    last = data.draw(st.integers(1, rows)) + problem.m // 1000
    panels = cut_rows(problem, first, rows, last)
    assert panels[0].start == 0
    assert len(panels[0]) == min(first, problem.m)
    assert panels[-1].stop == problem.m
    assert all(panels)
    assert all(before.stop == after.start for before, after in pairwise(panels))
    sizes = [len(panel) for panel in panels[1:]]
    assert max(sizes, default=0) <= rows
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)


@given(problem=problems, rows=st.integers(1, 5000))
def test_rounded_rows_are_near_the_wanted_ones(problem: PanelProblem, rows: int) -> None:
    for near in ((0.5, 2.0), (0.7, 1.15)):
        rounded = round_to_waves(problem, rows, near)
        least, most = near[0] * rows - problem.tile_m, near[1] * rows + problem.tile_m
        assert least <= rounded <= most or rounded == problem.m


def test_a_tall_product_is_rounded_at_once() -> None:
    problem = replace(square(4096), m=2**40, n=1)
    began = time.perf_counter()
    rounded = round_to_waves(problem, 2**38, (0.5, 2.0))
    assert time.perf_counter() - began < 0.1
    assert rounded == pytest.approx(2**38, rel=1e-4)


def test_rounding_takes_the_fullest_wave_nearby_rather_than_the_nearest_size() -> None:
    # 32 tiles a row on 132 slots: four rows of tiles fill 97% of a wave, three 73%.
    assert round_to_waves(square(4096), 384, (0.5, 2.0)) == 512


def test_the_last_panels_halve_down_to_the_wanted_size() -> None:
    sizes = [len(panel) for panel in cut_rows(square(16384), 2048, 1024, 128)]
    assert sizes == [2048, *[1024] * 13, 512, 256, 128, 128]


@given(columns=st.integers(1, 100_000), item_bytes=st.sampled_from([2, 4, 8]))
def test_padding_is_small_and_aligns_the_rows(columns: int, item_bytes: int) -> None:
    pitch_bytes = pitch_items(columns, item_bytes) * item_bytes
    row_bytes = columns * item_bytes
    assert row_bytes <= pitch_bytes <= max(row_bytes * 1.25, row_bytes)
    if row_bytes >= 64:
        assert pitch_bytes % 16 == 0
