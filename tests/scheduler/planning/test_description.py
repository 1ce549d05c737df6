"""What a plan says of itself: the seconds over F. Its queues are in service/api/products."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import H200, find_preset_profile, make_small_machine
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, choose_plan_on
from wavetrim.scheduler.planning.drawing import describe_curve, list_edges
from wavetrim.scheduler.problem import GemmProblem

TWO = find_preset_profile("H100 SXM x2")
SPLIT = choose_plan(GemmProblem(1000, 1000, 1000, memory="pinned"), make_small_machine())
WIDE = choose_plan_on(GemmProblem(1000, 16384, 8192), TWO, PlanOptions("cublas"), (0, 1))
SIZES = st.integers(1, 20_000)


@settings(max_examples=10, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, kernel=st.sampled_from(["auto", "simple"]))
def test_the_curve_rises_in_f_with_both_ends_and_the_chosen_f(m, n, k, kernel):
    plan = choose_plan(GemmProblem(m, n, k), H200, PlanOptions(kernel))
    points = describe_curve(plan)
    drawn = [point["f"] for point in points]
    assert drawn == sorted(set(drawn))
    assert {0, plan.f, m} <= set(drawn)
    assert len(drawn) <= 512
    for point in points:
        assert point["total_seconds"] == max(point["gpu_seconds"], point["cpu_seconds"])
    chosen = points[drawn.index(plan.f)]
    assert chosen["total_seconds"] == plan.predicted.total_seconds


@pytest.mark.parametrize("plan", [SPLIT, WIDE], ids=["split", "columns"])
def test_the_curve_has_both_ends_of_each_wave(plan):
    problem, m = plan.side.members[0].problem, plan.problem.m
    drawn, edges = {point["f"] for point in describe_curve(plan)}, list_edges(plan, 0, m, most=99)
    assert {*edges, *(edge - 1 for edge in edges if edge)} <= drawn
    waves = problem.count_waves(m)
    assert [problem.count_waves(m - edge) for edge in edges] == [*range(waves, -1, -1)]
    if waves > 1:
        assert problem.count_waves(m - edges[1] + 1) == waves
