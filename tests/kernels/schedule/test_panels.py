"""Tiles are computed in waves, and rows are cut into panels, which shrink at the end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.kernels.schedule.panels import PanelProblem, cut_rows

problems = st.builds(
    PanelProblem,
    m=st.integers(1, 10**6),
    n=st.integers(1, 40_000),
    k=st.integers(1, 40_000),
    item_bytes=st.sampled_from([2, 4, 8]),
    tile_m=st.integers(1, 256),
    tile_n=st.integers(1, 256),
    tile_k=st.sampled_from([4, 8, 32]),
    slots=st.integers(1, 300),
    stream_k_tail=st.booleans(),
    stream_k_short=st.booleans(),
)
rows = st.integers(0, 20_000)


@given(problem=problems, some=rows, more=rows)
def test_more_rows_take_no_fewer_waves(problem: PanelProblem, some: int, more: int) -> None:
    fewer, more = sorted((some, some + more))
    n, k = problem.n, problem.k
    assert problem.count_waves(fewer) <= problem.count_waves(more)
    assert problem.find_waves(fewer, n, k) <= problem.find_waves(more, n, k)


@given(problem=problems, waves=st.integers(1, 50))
def test_rows_in_waves_is_the_last_row_before_the_next_wave(
    problem: PanelProblem, waves: int
) -> None:
    rows = problem.find_rows_in_waves(waves)
    assert problem.count_waves(rows) <= waves < problem.count_waves(rows + 1)


@given(problem=problems, data=st.data())
def test_panels_follow_each_other_and_cover_all_rows(
    problem: PanelProblem, data: st.DataObject
) -> None:
    first, most = (data.draw(st.integers(1, 5000)) + problem.m // 500 for _ in range(2))
    panels = list(cut_rows(problem, first, most))
    assert (panels[0].start, len(panels[0])) == (0, min(first, problem.m))
    assert panels[-1].stop == problem.m
    assert all(panels)
    assert all(before.stop == after.start for before, after in pairwise(panels))
    sizes = [len(panel) for panel in panels[1:]]
    assert max(sizes, default=0) <= most
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
