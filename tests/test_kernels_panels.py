"""Rows are cut into panels of whole waves that shrink at the end; pieces fit their slabs."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.kernels.feeding import MIN_DRAIN_BYTES, count_feeding_rows
from wavetrim.kernels.leading import choose_lead
from wavetrim.kernels.panels import (
    AROUND,
    CLOSE,
    MAX_PANEL_BYTES,
    MIN_DEEP_PANEL_BYTES,
    MIN_PANEL_BYTES,
    MIN_STAGED_PANEL_BYTES,
    PanelProblem,
    choose_panel_rows,
    cut_rows,
    round_to_waves,
)
from wavetrim.kernels.pieces import cut_pieces, pitch_items

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
    gpu_share=st.sampled_from([1.0, 0.25, 1 / 132]),
)


def square(size: int, **changes: int) -> PanelProblem:
    values = {"m": size, "n": size, "k": size, "item_bytes": 4, "slots": 132}
    return PanelProblem(**values | {"tile_m": 128, "tile_n": 128, "tile_k": 8} | changes)


@given(problem=problems, first=st.integers(1, 5000), rows=st.integers(1, 5000))
def test_panels_follow_each_other_and_cover_all_rows(
    problem: PanelProblem, first: int, rows: int
) -> None:
    panels = cut_rows(problem, first, max(rows, problem.m // 500))
    assert panels[0].start == 0
    assert panels[-1].stop == problem.m
    assert all(panels)
    assert all(before.stop == after.start for before, after in pairwise(panels))
    assert (
        max(len(panel) for panel in panels[1:]) <= max(rows, problem.m // 500) if panels[1:] else 1
    )


@given(problem=problems)
def test_panels_are_rows_of_whole_tiles_except_the_last(problem: PanelProblem) -> None:
    for panel in cut_rows(problem, choose_lead(problem).rows, choose_panel_rows(problem))[:-1]:
        assert len(panel) % problem.tile_m == 0


@given(problem=problems, data=st.data())
def test_panels_end_where_another_device_is_to_begin_and_are_small_beyond(
    problem: PanelProblem, data: st.DataObject
) -> None:
    planned = data.draw(st.integers(1, problem.m))
    shared = replace(problem, planned_rows=planned)
    panels = cut_rows(shared, choose_lead(shared).rows, choose_panel_rows(shared))
    assert planned in [panel.stop for panel in panels]
    assert [row for panel in panels for row in (panel.start, panel.stop)][-1] == problem.m
    assert all(before.stop == after.start for before, after in pairwise(panels))
    beyond = [len(panel) for panel in panels if panel.start >= planned]
    assert max(beyond, default=0) <= max(problem.wave_rows, MIN_DRAIN_BYTES // problem.row_bytes)


@given(problem=problems)
def test_first_panel_of_c_is_no_larger_than_b_unless_rows_are_few(problem: PanelProblem) -> None:
    rows = choose_lead(problem).rows
    assert 1 <= rows <= problem.m
    if problem.streams_a:
        assert rows == choose_panel_rows(problem)
    elif problem.goes_deep:
        assert rows == problem.likely_rows
    else:
        assert rows <= max(2 * problem.k, problem.tile_m)


@given(problem=problems, share=st.floats(0.01, 1))
def test_fewer_multiprocessors_are_kept_busy_by_fewer_rows(
    problem: PanelProblem, share: float
) -> None:
    whole, held = replace(problem, gpu_share=1.0), replace(problem, gpu_share=share)
    wanted = [
        count_feeding_rows(one.n, one.k, one.item_bytes, one.gpu_share) for one in (held, whole)
    ]
    assert wanted[0] <= wanted[1]
    if not whole.streams_a:
        assert not held.streams_a


@given(problem=problems, rows=st.integers(1, 5000))
def test_rounded_rows_are_near_those_that_are_wanted(problem: PanelProblem, rows: int) -> None:
    for near in (AROUND, CLOSE):
        rounded = round_to_waves(problem, rows, near)
        least, most = near[0] * rows - problem.tile_m, near[1] * rows + problem.tile_m
        assert least <= rounded <= most or rounded == problem.m


def test_a_gpu_held_to_few_multiprocessors_begins_as_soon_as_the_first_rows_are_there() -> None:
    held = replace(square(4096, item_bytes=8, slots=4), gpu_share=4 / 132)
    assert choose_lead(replace(held, gpu_share=1.0)).rows == choose_panel_rows(held)
    assert not held.streams_a  # all of B would have to be there before
    assert choose_lead(held).rows == held.tile_m


@pytest.mark.parametrize("size", [2048, 4096, 8192, 16384])
def test_panels_of_a_square_product_fill_their_waves(size: int) -> None:
    problem = square(size)
    blocks = choose_panel_rows(problem) // problem.tile_m * problem.tiles_per_tile_row
    waves = -(-blocks // problem.slots)
    assert blocks / (waves * problem.slots) > 0.95


def test_rounding_takes_the_fullest_wave_nearby_rather_than_the_nearest_size() -> None:
    # 32 tiles a row on 132 slots: four rows of tiles fill 97% of a wave, three 73%.
    assert round_to_waves(square(4096), 384) == 512


def test_a_panel_stays_within_its_bounds_where_waves_allow() -> None:
    for size in (4096, 8192, 16384):
        problem = square(size)
        panel_bytes = choose_panel_rows(problem) * problem.row_bytes
        assert MIN_PANEL_BYTES <= panel_bytes <= 2 * MAX_PANEL_BYTES


def test_the_last_panels_shrink_to_one_wave() -> None:
    problem = square(16384)
    sizes = [len(panel) for panel in cut_rows(problem, 2048, 1024)]
    assert sizes[0] == 2048
    assert sizes[-1] == problem.wave_rows == 128
    assert sizes[1:] == sorted(sizes[1:], reverse=True)


def test_the_last_panels_shrink_to_part_of_a_wave_where_it_is_split() -> None:
    problem = square(4096, tile_n=256, splits_tail=True)
    assert problem.wave_rows == 1024
    assert len(cut_rows(problem, 2048, 1024)[-1]) == 256
    assert len(cut_rows(replace(problem, splits_tail=False), 2048, 1024)[-1]) == 1024


def test_the_last_panels_of_a_product_bound_by_copies_shrink_below_a_wave() -> None:
    problem = square(256, m=65536)
    assert not problem.is_compute_bound
    last = cut_rows(problem, 256, 8192)[-1]
    assert len(last) < problem.wave_rows


@given(columns=st.integers(1, 100_000), item_bytes=st.sampled_from([2, 4, 8]))
def test_padding_is_small_and_aligns_the_rows(columns: int, item_bytes: int) -> None:
    pitch_bytes = pitch_items(columns, item_bytes) * item_bytes
    row_bytes = columns * item_bytes
    assert row_bytes <= pitch_bytes <= max(row_bytes * 1.25, row_bytes)
    if row_bytes >= 64:
        assert pitch_bytes % 16 == 0


@given(
    top=st.integers(0, 50),
    left=st.integers(0, 50),
    rows=st.integers(1, 60),
    columns=st.integers(1, 900),
    item_bytes=st.sampled_from([2, 4, 8]),
    piece_bytes=st.integers(128, 8192),
)
def test_pieces_cover_a_matrix_once_and_fit(
    top: int, left: int, rows: int, columns: int, item_bytes: int, piece_bytes: int
) -> None:
    covered = set()
    down, across = range(top, top + rows), range(left, left + columns)
    for piece_rows, piece_columns in cut_pieces(
        down, across, item_bytes=item_bytes, piece_bytes=piece_bytes
    ):
        pitch = pitch_items(len(piece_columns), item_bytes)
        assert len(piece_rows) * pitch * item_bytes <= piece_bytes
        cells = {(row, column) for row in piece_rows for column in piece_columns}
        assert not covered & cells
        covered |= cells
    assert len(covered) == rows * columns
    assert {row for row, _ in covered} == set(down)


def test_a_shallow_product_has_panels_far_smaller_than_a_deep_one_of_as_many_bytes() -> None:
    shallow = PanelProblem(16384, 256, 128, 4, 128, 256, 16, 132, splits_tail=False)
    deep = PanelProblem(4096, 512, 2048, 4, 128, 256, 16, 132, splits_tail=False)
    assert shallow.least_bytes == MIN_PANEL_BYTES
    assert deep.least_bytes == MIN_DEEP_PANEL_BYTES


def test_staged_panels_are_no_smaller_than_slabs_are_worth() -> None:
    shallow = PanelProblem(65536, 256, 256, 4, 128, 256, 16, 132, splits_tail=True, staged=True)
    assert shallow.least_bytes == MIN_STAGED_PANEL_BYTES
    shallower = replace(shallow, m=16384)
    assert choose_panel_rows(shallower) * shallower.row_bytes >= MIN_STAGED_PANEL_BYTES


def test_few_slots_do_not_make_the_last_panels_tiny() -> None:
    """A wave of 4 multiprocessors is half a megabyte here: less than its panel costs the host."""
    problem = PanelProblem(65536, 256, 256, 4, 128, 256, 16, 4, planned_rows=49_152)
    panels = cut_rows(problem, 8192, 8192)
    assert min(len(rows) for rows in panels[:-1]) * problem.row_bytes >= MIN_DRAIN_BYTES / 2


def test_a_product_shorter_than_a_wave_is_cut_where_slots_share_waves() -> None:
    """4096 rows of 4 tiles are less than 132 slots hold, and their copies take longest."""
    problem = PanelProblem(4096, 1024, 1024, 4, 128, 256, 16, 132, splits_tail=True)
    assert problem.wave_rows > problem.m
    assert choose_panel_rows(problem) == problem.least_rows == 1024
    assert choose_panel_rows(replace(problem, splits_tail=False)) > 1024
