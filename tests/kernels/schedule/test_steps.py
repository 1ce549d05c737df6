"""Steps add every k to every element of C once, within the memory, in buffers that are free."""

from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.schedule.plans import budgets, plan_steps, problems
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.schedule.buffers import fit_buffers
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Cut, Step, StepPlan, list_steps


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
    if not problem.b_resident:
        contents.append((("b", step.b_slot), (step.buffer_columns, rows, depth), step.follows))
    return contents


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_all_of_a_and_b_that_a_step_reads_has_been_loaded_once(
    problem: PanelProblem, budget: int
) -> None:
    problem = replace(problem, b_resident=False)
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
def test_a_resident_b_is_never_loaded_and_has_no_buffer(problem: PanelProblem, budget: int) -> None:
    here = plan_steps(replace(problem, b_resident=True), budget)
    assert not any(step.loads_b for step in here.steps)
    assert here.buffers.b_slots == 0
    begun: set[Any] = set()
    whole = here.buffers.depth == problem.k
    for step in here.steps:
        part = None if whole else step.rows, step.depth, step.columns
        assert not (step.begins_b and part in begun), "the splits of a part are made twice"
        begun.add(part)
    loaded = plan_steps(replace(problem, b_resident=False), budget).steps
    assert all(step.loads_b == step.begins_b for step in loaded)


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_the_splits_of_every_step_have_room(problem: PanelProblem, budget: int) -> None:
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


@pytest.mark.parametrize("a_depth", [1408, 2816, 5000, 8192])
def test_a_may_arrive_ahead_of_the_prologue_and_each_column_once(a_depth: int) -> None:
    problem = PanelProblem(8192, 8192, 8192, 4, 64, 128, 16, 132)
    cut = Cut(
        first_rows=4096, panel_rows=512, last_rows=128, depth=1408, a_depth=a_depth,
        columns=8192, rest_columns=128,
    )  # fmt: skip
    buffers = fit_buffers(problem, 512, 4096, 1 << 34)
    steps = [step for step in list_steps(problem, cut, buffers) if step.rows.start == 0]
    assert len(steps) == 6
    assert [column for step in steps for column in step.a_depth] == list(range(8192))
    assert {step.a_depth.stop for step in steps} <= {a_depth, *range(0, 8192, a_depth), 8192}
    for step, arrived in zip(steps, accumulate(len(step.a_depth) for step in steps), strict=True):
        assert arrived >= step.depth.stop


def test_float16_is_summed_in_one_launch_while_it_fits() -> None:
    steps = plan_steps(PanelProblem(8192, 8192, 8192, 2, 128, 128, 8, 132), 1 << 34).steps
    assert {len(step.depth) for step in steps} == {8192}


def test_columns_not_k_are_cut_where_b_does_not_fit() -> None:
    plan = plan_steps(PanelProblem(4096, 8192, 2048, 4, 128, 128, 8, 132), 48 << 20)
    assert plan.buffers.columns < 8192
    assert plan.buffers.depth == 2048


def test_k_is_cut_where_one_column_of_tiles_does_not_fit() -> None:
    plan = plan_steps(PanelProblem(512, 512, 100_000, 4, 128, 128, 8, 132), 8 << 20)
    assert plan.buffers.depth < 100_000
    assert count_coverage(PanelProblem(512, 512, 100_000, 4, 128, 128, 8, 132), plan)


@settings(max_examples=40)
@given(problem=problems, tiles=st.integers(1, 3))
def test_the_refusal_of_too_small_a_budget_names_the_least_that_suffices(
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
