"""What a plan says of itself: the seconds over F, its queues, and JSON."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import H200, find_preset_profile, make_small_machine
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, choose_plan_on
from wavetrim.scheduler.planning.drawing import describe_curve, describe_schedule, list_edges
from wavetrim.scheduler.problem import MEMORIES, GemmProblem

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


@settings(max_examples=20, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, memory=st.sampled_from(MEMORIES), f=st.sampled_from(["auto", 1]))
def test_queues_are_within_the_predicted_seconds_and_compute_all_of_c(m, n, k, memory, f):
    plan = choose_plan(GemmProblem(m, n, k, memory=memory), TWO, PlanOptions(f=f))
    done = []
    for queue in describe_schedule(plan):
        spans = queue["spans"]
        times = [(span["begin_seconds"], span["end_seconds"]) for span in spans]
        assert all(before[1] <= after[0] for before, after in pairwise(times))
        assert all(0 <= begin <= end for begin, end in times)
        assert times[-1][1] <= plan.predicted.total_seconds * (1 + 1e-9)
        done += spans if queue["queue"] in ("kernel", "cpu") else []
    assert sum(span["rows"] * span["columns"] * span["depth"] for span in done) == m * n * k
    assert all(span["first_row"] + span["rows"] <= m for span in done)
    assert all(span["first_column"] + span["columns"] <= n for span in done)
