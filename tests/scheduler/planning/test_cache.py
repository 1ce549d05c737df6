"""The cache of plans: chosen anew once runs have moved what is chosen by, and not otherwise."""

from dataclasses import replace

import pytest

from tests.scheduler.profiles import change_cpu, make_small_machine, run_as_if
from wavetrim.scheduler.local.planned import find_crowded_f
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import PlanCache, choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import (
    FORGOTTEN_SECONDS,
    KEPT_RUNS,
    LEAST_RUNS,
    Corrections,
)

SMALL = make_small_machine()
SQUARE = GemmProblem(1000, 1000, 1000, memory="pinned")
ON_GPU = PlanOptions("bulk", "128x128", f=0)


class Clock:
    """Seconds that pass only when a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def machine(clock):
    return replace(SMALL, corrections=Corrections(clock))


def test_a_plan_is_made_once_for_product_options_and_profile():
    cache = PlanCache()
    first = cache.choose(SQUARE, SMALL)
    assert first == choose_plan(SQUARE, SMALL)
    assert cache.choose(replace(SQUARE), SMALL) is first
    assert cache.choose(SQUARE, replace(SMALL)) is not first
    assert cache.choose(SQUARE, SMALL, PlanOptions("simple", f=5)).f == 5
    resident = cache.choose(replace(SQUARE, b_resident=True), SMALL)
    assert resident.problem.b_resident
    assert cache.choose(SQUARE, SMALL) is first


def test_a_plan_whose_runs_are_off_by_less_than_a_fifth_stays_and_tells(machine):
    cache = PlanCache()
    plan = cache.choose(SQUARE, machine, ON_GPU)
    seconds = plan.predicted.total_seconds
    for _ in range(KEPT_RUNS):
        run_as_if(plan, 1.15)
    assert cache.choose(SQUARE, machine, ON_GPU) is plan
    assert plan.predicted.total_seconds == pytest.approx(1.15 * seconds)
    assert plan.gpu_only_seconds == plan.predicted.total_seconds
    assert plan.chosen_seconds == seconds
    (told,) = plan.describe()["profile"]["corrections"]
    assert (told["runs"], told["factor"]) == (KEPT_RUNS, pytest.approx(1.15))


def test_a_plan_whose_runs_are_off_by_more_is_chosen_anew_once_until_they_are_not(machine):
    cache = PlanCache()
    plan = cache.choose(SQUARE, machine, ON_GPU)
    for _ in range(LEAST_RUNS - 1):
        run_as_if(plan, 1.5)
    assert cache.choose(SQUARE, machine, ON_GPU) is plan, "a few runs tell nothing"
    for _ in range(KEPT_RUNS):
        run_as_if(plan, 1.5)
    later = cache.choose(SQUARE, machine, ON_GPU)
    assert later is not plan
    assert cache.choose(SQUARE, machine, ON_GPU) is later
    assert later.chosen_seconds == pytest.approx(1.5 * plan.uncorrected.total_seconds)
    for _ in range(KEPT_RUNS):
        run_as_if(later, 1.0)
    quiet = cache.choose(SQUARE, machine, ON_GPU)
    assert quiet.chosen_seconds == pytest.approx(plan.uncorrected.total_seconds)


def test_a_split_that_does_not_pay_is_chosen_no_more_and_tried_again_later(machine, clock):
    cache = PlanCache()
    split = cache.choose(SQUARE, machine)
    assert 0 < split.f < SQUARE.m
    for _ in range(12):  # splits by other kernels may have another bottleneck
        alone = cache.choose(SQUARE, machine)
        run_as_if(alone, 3.0 if 0 < alone.f < SQUARE.m else 1.0)
    assert alone.f in (0, SQUARE.m)
    clock.now += FORGOTTEN_SECONDS + 1
    assert cache.choose(SQUARE, machine) is alone
    run_as_if(alone, 1.0)
    assert cache.choose(SQUARE, machine).f == split.f


def test_while_others_want_the_cores_one_side_has_all_rows():
    def plan_with(gflops):
        return choose_plan(SQUARE, change_cpu(SMALL, float32_gflops=gflops, thread_gflops=gflops))

    split = plan_with(40)
    assert 0 < split.f < SQUARE.m
    assert find_crowded_f(split, numpy_has_cores=False) == 0
    even = plan_with(1.5 * 40 * split.cpu_only_seconds / split.gpu_only_seconds)
    assert find_crowded_f(even, numpy_has_cores=True) == SQUARE.m, "NumPy is as fast as ever"
    assert find_crowded_f(even, numpy_has_cores=False) == 0, "others have half of each core"
    assert find_crowded_f(plan_with(40_000), numpy_has_cores=False) == SQUARE.m
