"""How a product is cut into steps; that they give it is in kernels/transfer/commands_check.py."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.schedule.plans import budgets, cuts, problems
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.schedule.panels import PanelProblem, cut_rows, take_whole
from wavetrim.kernels.schedule.steps import cut_steps

many = settings(max_examples=40)


@given(problem=problems, some=st.integers(0, 20_000), further=st.integers(0, 20_000))
def test_more_rows_take_no_fewer_waves(problem, some, further):
    n, k = problem.n, problem.k
    assert problem.count_waves(some) <= problem.count_waves(some + further)
    assert problem.find_waves(some, n, k) <= problem.find_waves(some + further, n, k)


@given(problem=problems, waves=st.integers(1, 50))
def test_rows_in_waves_is_the_last_row_before_the_next_wave(problem, waves):
    rows = problem.find_rows_in_waves(waves)
    assert problem.count_waves(rows) <= waves < problem.count_waves(rows + 1)


@given(problem=problems, m=st.integers(1, 10**6), sizes=st.tuples(*2 * [st.integers(1, 5000)]))
def test_panels_follow_each_other_and_become_smaller(problem, m, sizes):
    first, most = (size + m // 500 for size in sizes)
    panels = list(cut_rows(replace(problem, m=m), first, most))
    assert (panels[0], panels[-1].stop) == (range(min(first, m)), m)
    assert all(panels)
    assert all(before.stop == after.start for before, after in pairwise(panels))
    lengths = [most, *map(len, panels[1:])]
    assert max(lengths) == most
    assert lengths[:-1] == sorted(lengths[:-1], reverse=True)


@many
@given(problem=problems, cut=cuts, budget=budgets)
def test_each_part_of_b_is_loaded_and_split_once_and_a_resident_one_never_loaded(
    problem, cut, budget
):
    plan = cut_steps(problem, cut, budget)
    cuts_k = plan.buffers.depth < problem.k  # then B comes again for each panel
    begun = [
        (step.rows if cuts_k else None, step.depth, step.columns)
        for step in plan.steps
        if step.begins_b
    ]
    assert len(begun) == len(set(begun))
    if not cuts_k:
        copied = sum(len(depth) * len(columns) for _, depth, columns in begun)
        assert copied == problem.k * problem.n
    assert (plan.buffers.b_slots == 0) == problem.b_resident


@many
@given(problem=problems, cut=cuts, budget=budgets)
def test_the_terms_of_every_step_have_memory(problem, cut, budget):
    plan = cut_steps(problem, cut, budget)
    for step in plan.steps:
        a_tiles = -(-len(step.rows) // problem.tile_m) * problem.tile_m
        b_tiles = -(-len(step.columns) // problem.tile_n) * problem.tile_n
        a_steps = -(-len(step.depth) // problem.tile_k) * problem.tile_k
        b_steps = -(-step.buffer_depth // problem.tile_k) * problem.tile_k
        elements = a_tiles * a_steps + b_tiles * b_steps
        assert elements * problem.term_item_bytes <= plan.buffers.term_bytes
        assert step.depth_offset % problem.tile_k == 0


@pytest.mark.parametrize(
    ("shape", "budget", "cut"),
    [
        ((8192, 8192, 8192), 1 << 34, (False, False)),
        ((4096, 8192, 2048), 48 << 20, (True, False)),
        ((512, 512, 100_000), 8 << 20, (False, True)),
    ],
)
def test_memory_cuts_first_columns_then_k(shape, budget, cut):
    problem = PanelProblem(*shape, 4, 128, 128, 8, 132)
    buffers = cut_steps(problem, take_whole(problem), budget).buffers
    assert (buffers.columns < problem.n, buffers.depth < problem.k) == cut


@many
@given(problem=problems, tiles=st.integers(1, 3))
def test_the_refusal_of_too_small_a_budget_names_the_least_that_suffices(problem, tiles):
    small = replace(
        problem,
        m=min(problem.m, tiles * problem.tile_m),
        n=min(problem.n, tiles * problem.tile_n),
        k=min(problem.k, tiles * problem.tile_k),
    )
    cut = take_whole(small)
    with pytest.raises(OperandError, match="gpu_memory_bytes is 100; it must be at least") as error:
        cut_steps(small, cut, 100)
    least = int(str(error.value).split("at least ")[1].split()[0])
    assert cut_steps(small, cut, least).buffers.total_bytes <= least
    with pytest.raises(OperandError):
        cut_steps(small, cut, least - 1)
