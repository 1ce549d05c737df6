"""Waves: tiles are computed in rounds of all slots."""

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.model.waves import WaveGrid

GRIDS = st.builds(
    WaveGrid,
    n=st.integers(1, 5000),
    tile_m=st.integers(1, 256),
    tile_n=st.integers(1, 256),
    slots=st.integers(1, 300),
)


def test_8192_cubed_in_128_tiles_takes_32_waves_on_132_slots():
    grid = WaveGrid(n=8192, tile_m=128, tile_n=128, slots=132)
    assert grid.count_tiles(8192) == 4096
    assert grid.count_waves(8192) == 32
    assert grid.count_tail_tiles(8192) == 4096 - 31 * 132


def test_the_references_example_has_seven_by_eight_tiles():
    grid = WaveGrid(n=256, tile_m=32, tile_n=32, slots=56)
    assert grid.count_tiles(224) == 7 * 8
    assert grid.tail_utilization(224) == 1.0


def test_one_column_more_can_add_a_wave():
    narrow = WaveGrid(n=1024, tile_m=128, tile_n=128, slots=64)
    wide = WaveGrid(n=1025, tile_m=128, tile_n=128, slots=64)
    assert narrow.count_waves(1024) == 1
    assert wide.count_waves(1024) == 2


def test_no_rows_take_no_wave_and_have_no_tail():
    grid = WaveGrid(n=7, tile_m=4, tile_n=4, slots=3)
    assert (grid.count_waves(0), grid.count_tail_tiles(0), grid.tail_utilization(0)) == (0, 0, 0.0)


@given(GRIDS, st.integers(0, 20000))
def test_full_waves_and_the_tail_hold_every_tile(grid, rows):
    full = max(grid.count_waves(rows) - 1, 0) * grid.slots
    assert full + grid.count_tail_tiles(rows) == grid.count_tiles(rows)
    assert 0 <= grid.tail_utilization(rows) <= 1


@given(GRIDS, st.integers(1, 5000), st.lists(st.integers(0, 20000), min_size=2))
def test_a_split_tail_costs_between_its_share_and_a_wave(grid, steps_k, rows):
    waves = [grid.count_split_waves(count, steps_k) for count in sorted(rows)]
    assert waves == sorted(waves)
    for count, split in zip(sorted(rows), waves, strict=True):
        assert grid.count_tiles(count) / grid.slots <= split * (1 + 1e-12)
        assert split <= grid.count_waves(count)


def test_a_nearly_empty_tail_is_cheap_when_it_is_split():
    grid = WaveGrid(n=4224, tile_m=128, tile_n=256, slots=132)
    assert (grid.count_waves(4224), grid.tail_utilization(4224)) == (5, 33 / 132)
    assert 4.25 < grid.count_split_waves(4224, steps_k=264) < 4.30


def test_without_a_tail_there_is_nothing_to_split():
    grid = WaveGrid(n=256 * 12, tile_m=128, tile_n=256, slots=132)
    assert grid.count_split_waves(128 * 22, steps_k=64) == grid.count_waves(128 * 22) == 2


@given(GRIDS, st.integers(1, 50))
def test_rows_in_waves_is_the_last_row_before_the_next_wave(grid, waves):
    rows = grid.rows_in_waves(waves)
    assert grid.count_waves(rows) <= waves
    assert grid.count_waves(rows + 1) > waves
