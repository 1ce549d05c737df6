"""Steps compute every element of C from every k once, within the memory, never in a used buffer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.feeding import streams_a
from wavetrim.kernels.panels import PanelProblem
from wavetrim.kernels.steps import Step, StepPlan, plan_steps

sizes = st.one_of(
    st.tuples(*3 * [st.integers(1, 1200)]),
    st.tuples(st.integers(1, 300), st.integers(4000, 20_000), st.integers(100, 600)),  # C is large
    st.tuples(st.integers(1, 200), st.integers(1, 200), st.sampled_from([8192, 16_384, 24_576])),
)
problems = st.builds(
    lambda size, **values: PanelProblem(*size, **values),
    size=sizes,
    item_bytes=st.sampled_from([2, 4, 8]),
    tile_m=st.sampled_from([16, 32, 128]),
    tile_n=st.sampled_from([16, 32, 256]),
    tile_k=st.sampled_from([4, 8, 32]),
    slots=st.sampled_from([4, 40, 132]),
    split_item_bytes=st.sampled_from([0, 6]),
    staged=st.booleans(),
)
budgets = st.one_of(st.integers(1 << 20, 1 << 26), st.just(1 << 32))


def count_coverage(problem: PanelProblem, plan: StepPlan) -> int:
    """Products a·b that the steps form; asserts that each row and column sees all k in order."""
    total = 0
    reached: dict[tuple[range, range], int] = {}
    for step in plan.steps:
        part = step.rows, step.columns
        assert step.first == (part not in reached)
        assert step.depth.start == reached.get(part, 0)
        reached[part] = step.depth.stop
        assert step.last == (step.depth.stop == problem.k)
        total += len(step.rows) * len(step.columns) * len(step.depth)
    assert set(reached.values()) == {problem.k}
    corners = np.zeros((problem.m, problem.n), np.int8)
    for rows, columns in reached:
        corners[rows.start : rows.stop, columns.start : columns.stop] += 1
    assert np.all(corners == 1)
    return total


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_every_row_column_and_k_is_covered_once_within_the_budget(
    problem: PanelProblem, budget: int
) -> None:
    plan = plan_steps(problem, budget)
    assert plan.buffers.total_bytes <= budget
    assert count_coverage(problem, plan) == problem.m * problem.n * problem.k
    for step in plan.steps:
        assert len(step.rows) <= plan.buffers.rows
        assert len(step.columns) <= len(step.buffer_columns) <= plan.buffers.columns
        assert set(step.columns) <= set(step.buffer_columns)
        assert step.depth_offset + len(step.depth) <= step.buffer_depth <= plan.buffers.depth


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_no_buffer_is_filled_while_a_step_still_needs_it(
    problem: PanelProblem, budget: int
) -> None:
    steps = plan_steps(problem, budget).steps
    uses: dict[tuple[str, int], list[tuple[int, Any]]] = {}
    for index, step in enumerate(steps):
        for buffer, content, follows in list_contents(step, problem):
            before = [use for use, held in uses.get(buffer, []) if held != content]
            assert max(before, default=-1) <= follows < index
            uses.setdefault(buffer, []).append((index, content))


def list_contents(step: Step, problem: PanelProblem) -> list[tuple[tuple[str, int], Any, int]]:
    """The buffers of a step, what they hold, and the step after which they may be filled."""
    depth = step.depth if step.buffer_depth < problem.k else range(problem.k)
    contents: list[tuple[tuple[str, int], Any, int]] = [
        (("a", step.a_slot), (step.buffer_columns, step.rows, depth), step.follows),
        (("c", step.c_slot), (step.buffer_columns, step.rows), step.c_follows),
    ]
    rows = step.rows if step.buffer_depth < problem.k else None
    contents.append((("b", step.b_slot), (step.buffer_columns, rows, depth), step.follows))
    return contents


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_all_of_a_and_b_that_a_step_reads_has_been_loaded_once(
    problem: PanelProblem, budget: int
) -> None:
    loaded: dict[tuple[str, int], tuple[Any, set[Any]]] = {}
    for step in plan_steps(problem, budget).steps:
        whole = step.buffer_depth == problem.k
        group = step.buffer_columns
        part = step.depth.start, step.columns.start
        fills = {
            ("a", step.a_slot): (
                (group, step.rows, None if whole else step.depth),
                set(step.a_depth),
                set(step.depth),
            ),
            ("b", step.b_slot): (
                (group, None if whole else (step.rows, step.depth)),
                {part} if step.loads_b else set(),
                {part} if step.loads_b else {(0, group.start)},
            ),
        }
        for buffer, (content, arriving, needed) in fills.items():
            held, there = loaded.get(buffer, (None, set()))
            there = there if held == content else set()
            assert not arriving & there
            assert needed <= there | arriving
            loaded[buffer] = content, there | arriving


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_what_the_kernel_makes_of_any_step_has_room(problem: PanelProblem, budget: int) -> None:
    plan = plan_steps(problem, budget)
    for step in plan.steps:
        a_tiles = -(-len(step.rows) // problem.tile_m) * problem.tile_m
        b_tiles = -(-len(step.columns) // problem.tile_n) * problem.tile_n
        a_steps = -(-len(step.depth) // problem.tile_k) * problem.tile_k
        b_steps = -(-step.buffer_depth // problem.tile_k) * problem.tile_k
        elements = a_tiles * a_steps + b_tiles * b_steps
        assert elements * problem.split_item_bytes <= plan.buffers.split_bytes
        assert step.depth_offset % problem.tile_k == 0


def test_b_that_fits_is_loaded_once() -> None:
    problem = PanelProblem(8192, 8192, 8192, 4, 128, 128, 8, 132)
    plan = plan_steps(problem, 1 << 34)
    loaded = [len(step.depth) * len(step.columns) for step in plan.steps if step.loads_b]
    assert sum(loaded) == 8192 * 8192
    assert {step.buffer_columns for step in plan.steps} == {range(8192)}


@pytest.mark.parametrize(
    ("shape", "item_bytes", "lead"),
    [
        ((4096, 4096, 4096), 4, (3072, 2816)),
        ((8192, 8192, 8192), 4, (4224, 4096)),
        ((4096, 11_008, 4096), 4, (3072, 5632)),
        ((1531, 7919, 3001), 4, (1531, 4096)),
        ((16_384, 16_384, 16_384), 8, (8448, 8192)),
    ],
)
def test_a_first_panel_begins_with_about_as_many_columns_of_b_as_it_has_rows(
    shape: tuple[int, int, int], item_bytes: int, lead: tuple[int, int]
) -> None:
    m, n, k = shape
    problem = PanelProblem(*shape, item_bytes, 128, 256, 16, 132, splits_tail=True)
    first = [step for step in plan_steps(problem, 1 << 36).steps if step.rows.start == 0]
    assert (len(first[0].rows), len(first[0].columns)) == lead
    *through_k, one, other = first
    assert {step.columns for step in through_k} == {range(lead[1])}
    assert through_k[-1].last
    assert all(step.first and step.last and len(step.depth) == k for step in (one, other))
    assert not one.a_depth
    assert not other.a_depth
    assert range(one.columns.start, other.columns.stop) == range(lead[1], n)
    assert lead[0] * lead[1] < 0.65 * m * n


@pytest.mark.parametrize(
    "changes",
    [
        {"staged": True},
        {"split_item_bytes": 6},
        {"gpu_share": 0.2},
        {"n": 32_768},  # few rows of all columns are enough
        {"item_bytes": 2},
        {"m": 512},
        {"item_bytes": 8},  # parts of its columns would be slow to copy
    ],
    ids=str,
)
def test_a_first_panel_begins_with_all_columns_where_some_are_no_gain(
    changes: dict[str, Any],
) -> None:
    problem = PanelProblem(8192, 8192, 8192, 4, 128, 256, 16, 132, splits_tail=True)
    assert len(plan_steps(problem, 1 << 36).steps[0].columns) == 4096
    problem = replace(problem, **changes)
    assert len(plan_steps(problem, 1 << 36).steps[0].columns) == problem.n


def test_where_c_is_what_goes_out_its_first_columns_wait_for_those_of_b_only() -> None:
    steps = plan_steps(PanelProblem(16384, 16384, 256, 4, 128, 256, 16, 132), 1 << 34).steps
    halves = [step for step in steps if step.rows.start == 0]
    assert [step.columns for step in halves] == [range(8192), range(8192, 16384)]
    assert [len(step.a_depth) for step in halves] == [256, 0]
    assert all(step.first and step.last and len(step.rows) == 256 for step in halves)
    assert {step.columns for step in steps[2:]} == {range(16384)}
    assert not any(step.loads_b for step in steps[2:])


def test_where_b_does_not_fit_a_first_panel_goes_through_k_even_if_c_takes_long_to_leave() -> None:
    problem = PanelProblem(2048, 16_384, 3000, 8, 64, 128, 16, 132)
    assert problem.leading_parts > 1
    assert {len(step.depth) for step in plan_steps(problem, 1 << 30).steps} == {3000}
    plan = plan_steps(problem, 1 << 28)
    assert plan.buffers.columns < problem.n
    assert len(plan.steps[0].depth) < plan.buffers.depth == problem.k


@pytest.mark.parametrize(("k", "item_bytes"), [(8192, 8), (16384, 4)])
@pytest.mark.parametrize("staged", [False, True])
def test_parts_of_rows_that_lie_far_apart_arrive_in_long_ones_unless_staged(
    k: int, item_bytes: int, staged: bool
) -> None:
    problem = PanelProblem(8192, 8192, k, item_bytes, 64, 128, 16, 132, staged=staged)
    steps = [step for step in plan_steps(problem, 1 << 34).steps if step.rows.start == 0]
    steps = [step for step in steps if step.columns.start == 0]
    assert len(steps) == 6
    if staged:
        assert all(step.a_depth == step.depth for step in steps)
    else:
        arriving = [len(step.a_depth) * item_bytes for step in steps]
        assert arriving == [32768, 0, 32768, 0, 0, 0]


def test_the_first_panel_starts_before_all_of_b_has_arrived() -> None:
    steps = plan_steps(PanelProblem(8192, 8192, 8192, 4, 128, 128, 8, 132), 1 << 34).steps
    assert len(steps[0].depth) <= 8192 // 4
    assert steps[0].rows == steps[1].rows


def test_where_a_is_what_comes_in_the_first_panel_waits_for_b() -> None:
    steps = plan_steps(PanelProblem(8192, 1024, 8192, 8, 64, 128, 16, 132), 1 << 34).steps
    assert [step.loads_b for step in steps] == [True] + [False] * (len(steps) - 1)
    assert {len(step.depth) for step in steps} == {8192}


@pytest.mark.parametrize(
    ("m", "n", "item_bytes", "streams"),
    [
        (8192, 1024, 4, True),
        (4096, 4096, 8, True),
        (3456, 4096, 8, True),  # A is little smaller than B
        (2700, 4096, 8, False),
        (65536, 256, 4, True),
        (8192, 8192, 4, False),  # the kernels take longer
        (256, 8192, 4, False),  # B is what comes in
        (16384, 16384, 4, False),
    ],
)
def test_whether_a_is_what_comes_in(m: int, n: int, item_bytes: int, streams: bool) -> None:
    assert streams_a(m, n, item_bytes) is streams


@pytest.mark.parametrize("shape", [(512, 512, 65536), (333, 257, 40_009)])
def test_a_small_c_is_one_panel_that_goes_through_k_in_steps(shape: tuple[int, int, int]) -> None:
    steps = plan_steps(PanelProblem(*shape, 4, 64, 64, 32, 132), 1 << 34).steps
    assert {step.rows for step in steps} == {range(shape[0])}
    assert all(step.loads_b for step in steps)
    assert 3 <= len(steps) <= 7
    assert steps[0].first
    assert steps[-1].last


@pytest.mark.parametrize("shape", [(8192, 8192, 64), (8192, 64, 8192), (20_000, 64, 8192)])
def test_a_large_c_several_waves_or_short_rows_of_a_have_several_panels(
    shape: tuple[int, int, int],
) -> None:
    steps = plan_steps(PanelProblem(*shape, 4, 64, 64, 32, 132), 1 << 34).steps
    assert len({step.rows for step in steps}) > 3


def test_float16_is_summed_in_one_launch_while_it_fits() -> None:
    steps = plan_steps(PanelProblem(8192, 8192, 8192, 2, 128, 128, 8, 132), 1 << 34).steps
    assert {len(step.depth) for step in steps} == {8192}


def test_columns_are_cut_where_b_does_not_fit_and_k_is_not() -> None:
    plan = plan_steps(PanelProblem(4096, 8192, 2048, 4, 128, 128, 8, 132), 48 << 20)
    assert plan.buffers.columns < 8192
    assert plan.buffers.depth == 2048


def test_k_is_cut_where_one_column_of_tiles_does_not_fit() -> None:
    plan = plan_steps(PanelProblem(512, 512, 100_000, 4, 128, 128, 8, 132), 8 << 20)
    assert plan.buffers.depth < 100_000
    assert count_coverage(PanelProblem(512, 512, 100_000, 4, 128, 128, 8, 132), plan)


@settings(max_examples=40)
@given(problem=problems, tiles=st.integers(1, 3))
def test_a_budget_too_small_for_a_tile_names_the_least_value_which_is_enough(
    problem: PanelProblem, tiles: int
) -> None:
    small = replace(
        problem,
        m=min(problem.m, tiles * problem.tile_m),
        n=min(problem.n, tiles * problem.tile_n),
        k=min(problem.k, tiles * problem.tile_k),
    )
    with pytest.raises(OperandError, match="gpu_memory_bytes is 100; it must be at least") as error:
        plan_steps(small, 100)
    least = int(str(error.value).split("at least ")[1].split()[0])
    assert plan_steps(small, least).buffers.total_bytes <= least
    with pytest.raises(OperandError):
        plan_steps(small, least - 1)
