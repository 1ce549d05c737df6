"""The cache of plans: one plan for a product, its options and its profile."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.scheduler.profiles import find_preset_profile, make_reference_profile
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.curve_points import describe_curve
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem


def test_a_plan_is_made_once_for_product_options_and_profile() -> None:
    cache, profile = PlanCache(), make_reference_profile()
    problem = GemmProblem(2048, 2048, 2048)
    first = cache.choose(problem, profile)
    assert first == choose_plan(problem, profile)
    assert cache.choose(GemmProblem(2048, 2048, 2048), profile) is first
    assert cache.choose(problem, replace(profile)) is not first
    assert cache.choose(problem, profile, PlanOptions("simple", f=5)).f == 5
    assert cache.choose(problem, profile) is first
    assert len(cache) == 3


def test_refused_plans_are_refused_again() -> None:
    cache = PlanCache()
    for _ in range(2):
        with pytest.raises(PlanError, match="f is 9"):
            cache.choose(GemmProblem(8, 8, 8), make_reference_profile(), PlanOptions(f=9))
    assert len(cache) == 0


def test_the_plan_cache_keeps_what_is_asked_for_often() -> None:
    cache, profile = PlanCache(capacity=8), make_reference_profile()
    often = GemmProblem(64, 64, 64)
    kept = cache.choose(often, profile)
    for m in range(1, 60):
        cache.choose(GemmProblem(m, 8, 8), profile)
        assert cache.choose(often, profile) is kept
        assert len(cache) <= 8


def test_several_threads_share_a_plan_cache() -> None:
    cache, profile = PlanCache(capacity=4), make_reference_profile()
    start = threading.Barrier(6)

    def ask(seed: int) -> bool:
        start.wait()
        problems = [GemmProblem(1 + (seed + turn) % 9, 8, 8) for turn in range(80)]
        return all(cache.choose(one, profile).problem == one for one in problems)

    with ThreadPoolExecutor(6) as askers:
        assert all(askers.map(ask, range(6)))


def test_several_threads_may_ask_one_plan_for_its_curve() -> None:
    """Whatever was asked first, and in whichever thread, the curve stays the same."""
    profile = find_preset_profile("H100 SXM")
    before = sys.getswitchinterval()
    for turn in range(5):
        problem = GemmProblem(9000 + turn, 3000, 2000)
        wanted = describe_curve(choose_plan(problem, profile))
        shared = choose_plan(problem, profile)
        sys.setswitchinterval(1e-5)
        try:
            with ThreadPoolExecutor(4) as askers:
                curves = list(askers.map(lambda _, plan=shared: describe_curve(plan), range(4)))
        finally:
            sys.setswitchinterval(before)
        assert [*curves, describe_curve(shared)] == [wanted] * 5


def test_while_others_want_the_cores_one_side_has_all_rows() -> None:
    problem, options = GemmProblem(2048, 2048, 2048, memory="pinned"), PlanOptions("simple", "4")

    def plan_with(cpu_gflops: float) -> Plan:
        return choose_plan(problem, make_reference_profile(cpu_gflops=cpu_gflops), options)

    split = plan_with(40)
    assert 0 < split.f < problem.m
    assert split.find_crowded_f(numpy_has_cores=False) == 0
    assert split.gpu_only_seconds is not None
    even = plan_with(1.5 * 40 * split.cpu_only_seconds / split.gpu_only_seconds)
    assert even.find_crowded_f(numpy_has_cores=True) == problem.m, "NumPy is as fast as ever"
    assert even.find_crowded_f(numpy_has_cores=False) == 0, "others have half of each core"
    assert plan_with(40_000).find_crowded_f(numpy_has_cores=False) == problem.m
