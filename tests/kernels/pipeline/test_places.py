"""Every step has places in the memory that are large enough for its parts of A, B and C."""

from itertools import pairwise

from hypothesis import given, settings

from tests.kernels.schedule.plans import budgets, plan_steps, problems
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.pipeline.places import place_steps
from wavetrim.kernels.schedule.buffers import pitch_items

START = 1 << 30
ELSEWHERE = 1 << 50


def find_resident(problem):
    """The place of a resident B."""
    if not problem.b_resident:
        return None
    pitch = pitch_items(problem.n, problem.item_bytes)
    return Layout(ELSEWHERE, problem.k, problem.n, pitch, problem.item_bytes)


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_places_hold_their_parts_and_buffers_do_not_overlap(problem, budget):
    plan = plan_steps(problem, budget)
    buffers = plan.buffers
    ends = {}
    resident = find_resident(problem)
    for placed in place_steps(plan, START, resident):
        step = placed.step
        assert (placed.a.rows, placed.a.columns) == (len(step.rows), len(step.depth))
        assert (placed.b.rows, placed.b.columns) == (len(step.depth), len(step.columns))
        assert (placed.c.rows, placed.c.columns) == (len(step.rows), len(step.columns))
        assert (placed.arriving.rows, placed.arriving.columns) == (
            len(step.rows),
            len(step.a_depth),
        )
        ahead = (placed.arriving.pointer - placed.a.pointer) // placed.a.item_bytes
        assert ahead == step.a_depth.start - step.depth.start
        slots = {"a": step.a_slot, "b": step.b_slot, "c": step.c_slot}
        if resident is not None:
            assert placed.b == resident.cut(step.depth, step.columns)
            del slots["b"]
        for name, slot in slots.items():
            layout = getattr(placed, name)
            assert layout.columns <= layout.leading_dimension
            items = (layout.rows - 1) * layout.leading_dimension + layout.columns
            first, last = layout.pointer, layout.pointer + items * layout.item_bytes
            low, high = ends.get((name, slot), (first, last))
            ends[name, slot] = min(low, first), max(high, last)
    edges = sorted(ends.values())
    assert edges[0][0] >= START
    assert edges[-1][1] <= START + buffers.total_bytes - buffers.split_bytes
    assert all(before[1] <= after[0] for before, after in pairwise(edges))


@settings(max_examples=40)
@given(problem=problems, budget=budgets)
def test_splits_lie_after_the_buffers_if_the_kernel_makes_any(problem, budget):
    plan = plan_steps(problem, budget)
    behind = START + plan.buffers.total_bytes - plan.buffers.split_bytes
    for placed in place_steps(plan, START, find_resident(problem)):
        step = placed.step
        if not problem.split_item_bytes:
            assert placed.splits is None
            continue
        assert placed.splits.pointer == behind
        assert placed.splits.first == step.depth_offset
        assert placed.splits.depth == step.buffer_depth
        assert placed.splits.fresh == step.begins_b
