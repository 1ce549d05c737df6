"""What is kept for a plan is found by the same plan, and is not kept for ever."""

from dataclasses import replace

from tests.scheduler.profiles import H200
from wavetrim.scheduler.execution.kept import MOST_KEPT, KeptByPlan
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem

PLAN = choose_plan(GemmProblem(512, 512, 512, memory="pinned"), H200, PlanOptions(f=0))


def test_only_the_same_plan_finds_what_was_kept_last():
    kept = KeptByPlan[str]()
    assert kept.find(PLAN) is None
    kept.keep(PLAN, "first")
    kept.keep(PLAN, "second")
    assert kept.find(PLAN) == "second"
    assert kept.find(replace(PLAN)) is None


def test_one_plan_too_many_drops_all_others():
    kept, plans = KeptByPlan[int](), [replace(PLAN) for _ in range(MOST_KEPT + 1)]
    for number, plan in enumerate(plans[:-1]):
        kept.keep(plan, number)
    kept.keep(plans[0], -1)
    assert [kept.find(plan) for plan in plans] == [-1, *range(1, MOST_KEPT), None]
    kept.keep(plans[-1], MOST_KEPT)
    assert [kept.find(plan) for plan in plans] == [None] * MOST_KEPT + [MOST_KEPT]
