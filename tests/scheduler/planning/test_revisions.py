"""Plans are made anew beside products, seldom, and what is prepared for them is kept."""

import math
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.limit import allow
from tests.scheduler.profiles import H200, make_learning_machine, run_as_if
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.kept import KeptByPlan
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning import cache as planning
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider

LARGE = GemmProblem(4096, 4096, 4096, memory="pinned")
ON_GPU = PlanOptions("bulk", "128x256", f=0)


def list_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "revisions"]


@pytest.fixture
def plans() -> Iterator[PlanCache]:
    found = PlanCache()
    yield found
    found.close()


@pytest.fixture
def planners(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of the thread of each plan that a cache makes."""
    names: list[str] = []

    def choose_and_tell(*arguments: object) -> Plan:
        names.append(threading.current_thread().name)
        return choose_plan(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "choose_plan", choose_and_tell)
    return names


def await_revision(
    plans: PlanCache, problem: GemmProblem, profile: MachineProfile, options: PlanOptions
) -> Plan:
    """The next plan of a product that goes on running."""
    first, began = plans.choose(problem, profile, options), time.monotonic()
    while (plan := plans.choose(problem, profile, options)) is first:
        assert time.monotonic() - began < allow(10)
        time.sleep(0.01)
    return plan


def test_no_product_waits_for_a_plan_that_it_has(
    tmp_path: Path, kernel_cache: Path, plans: PlanCache, planners: list[str]
) -> None:
    """Twenty shapes take turns, while runs move their factors up and down by half and more."""
    source = random.Random(3)
    provider = ProfileProvider(directory=tmp_path, devices=(), cpu_threads=2)
    shapes = [(m, m + 7, m + 30) for m in range(100, 300, 10)]
    arrays = {(m, n, k): (np.ones((m, k)), np.ones((k, n)), np.empty((m, n))) for m, n, k in shapes}
    began = time.monotonic()
    with Executor(cache_dir=kernel_cache, cpu_threads=2) as executor:
        while time.monotonic() - began < 4:
            for (m, n, k), (a, b, c) in arrays.items():
                plan = plans.choose(GemmProblem(m, n, k, "float64"), provider.find())
                executor.run(plan, a, b, c)
                run_as_if(plan, math.exp(source.uniform(-1, 1)))
                assert (c == k).all()
    here = threading.current_thread().name
    assert planners.count(here) == len(shapes)
    assert set(planners) == {here, "revisions"}


def test_a_plan_is_made_anew_beside_products_once_a_factor_has_moved(
    plans: PlanCache, planners: list[str]
) -> None:
    profile = make_learning_machine()
    first = plans.choose(LARGE, profile, ON_GPU)
    for _ in range(20):
        run_as_if(first, 1.5)
    later = await_revision(plans, LARGE, profile, ON_GPU)
    ratio = later.predicted.total_seconds / first.predicted.total_seconds
    assert ratio == pytest.approx(1.5, rel=0.03)
    assert planners == [threading.current_thread().name, "revisions"]


def test_a_move_of_less_than_a_fifth_changes_no_plan() -> None:
    profile = make_learning_machine()
    plan = choose_plan(LARGE, profile, ON_GPU)
    for _ in range(20):
        run_as_if(plan, 1.18)
    assert plan.is_current
    for _ in range(20):
        run_as_if(plan, 1.25)
    assert not plan.is_current
    assert choose_plan(LARGE, profile, ON_GPU).is_current


def test_what_is_prepared_stays_if_the_new_plan_decides_the_same(plans: PlanCache) -> None:
    profile, kept = make_learning_machine(), KeptByPlan[str]()
    first = plans.choose(LARGE, profile, ON_GPU)
    kept.keep(first, "commands")
    for _ in range(20):
        run_as_if(first, 1.5)
    later = await_revision(plans, LARGE, profile, ON_GPU)
    assert later.decision is first.decision
    assert kept.find(later) == "commands"


def test_a_new_plan_may_decide_otherwise(plans: PlanCache) -> None:
    profile, kept = make_learning_machine(), KeptByPlan[str]()
    problem = GemmProblem(1024, 1024, 1024)
    first = plans.choose(problem, profile)
    assert first.f == 0
    kept.keep(first, "commands")
    for _ in range(20):
        run_as_if(first, 30.0)
    later = await_revision(plans, problem, profile, NO_OPTIONS)
    assert later.f == problem.m
    assert kept.find(later) is None


def test_the_thread_runs_only_while_plans_that_learn_are_used(plans: PlanCache) -> None:
    for _ in range(3):
        plans.choose(LARGE, H200, ON_GPU)  # a preset: no run corrects it
    assert list_threads() == []
    profile = make_learning_machine()
    plans.choose(LARGE, profile, ON_GPU)
    assert list_threads() == []
    plans.choose(LARGE, profile, ON_GPU)
    assert len(list_threads()) == 1
    began = time.monotonic()
    while list_threads():
        assert time.monotonic() - began < allow(15)
        time.sleep(0.1)
    plans.choose(LARGE, profile, ON_GPU)
    assert len(list_threads()) == 1
    plans.close()
    plans.choose(LARGE, profile, ON_GPU)
    assert list_threads() == []
