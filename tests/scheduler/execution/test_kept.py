"""What is kept for a plan is found by plans that decide the same, and is not kept for ever."""

from dataclasses import replace

from tests.scheduler.profiles import H200
from wavetrim.scheduler.execution.kept import MOST_KEPT, KeptByPlan
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem

ON_GPU = PlanOptions(f=0)
PLAN = choose_plan(GemmProblem(512, 512, 512, memory="pinned"), H200, ON_GPU)


def choose_for(m: int) -> Plan:
    """The plan of a product with so many rows."""
    return choose_plan(GemmProblem(m, 64, 64, memory="pinned"), H200, ON_GPU)


def test_plans_that_decide_the_same_find_what_was_kept_last() -> None:
    kept = KeptByPlan[str]()
    assert kept.find(PLAN) is None
    kept.keep(PLAN, "first")
    kept.keep(PLAN, "second")
    assert kept.find(PLAN) == "second"
    assert kept.find(replace(PLAN)) == "second"
    assert kept.find(replace(PLAN, sms=64)) is None


def test_three_hundred_shapes_in_turns_keep_what_is_prepared() -> None:
    kept = KeptByPlan[int]()
    for m in range(1, 301):
        kept.keep(choose_for(m), m)
    assert [kept.find(choose_for(m)) for m in range(1, 301)] == [*range(1, 301)]


def test_the_plans_used_longest_ago_make_room() -> None:
    kept, plans = KeptByPlan[int](), [choose_for(m) for m in range(1, MOST_KEPT + 2)]
    for number, plan in enumerate(plans[:-1]):
        kept.keep(plan, number)
    assert kept.find(plans[0]) == 0
    kept.keep(plans[-1], MOST_KEPT)
    found = [kept.find(plan) for plan in plans]
    assert found[0] == 0
    assert found[1] is None
    assert found[-MOST_KEPT // 2 :] == [*range(MOST_KEPT // 2 + 1, MOST_KEPT + 1)]
