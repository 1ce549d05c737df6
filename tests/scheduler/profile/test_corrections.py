"""Runs correct the next plans: seconds, kernels, splits."""

import math
import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from tests.scheduler.profiles import make_learning_machine, run_as_if
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.model.corrections import RunClass, classify_cpu_run, classify_gpu_run
from wavetrim.scheduler.model.device_runs import KEPT_RUNS
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.provider import ProfileProvider


def test_products_of_one_thread_are_corrected_too() -> None:
    profile = make_learning_machine()
    problem = GemmProblem(64, 64, 64)
    first = choose_plan(problem, profile)
    assert first.f == 64
    for _ in range(20):
        run_as_if(choose_plan(problem, profile), 1.5)
    later = choose_plan(problem, profile, PlanOptions(f=64))
    ratio = later.predicted.total_seconds / first.predicted.total_seconds
    assert ratio == pytest.approx(1.5, rel=0.02)


def test_products_that_took_longer_are_predicted_longer() -> None:
    profile = make_learning_machine()
    problem, options = GemmProblem(4096, 4096, 4096, memory="pinned"), PlanOptions(f=0)
    first = choose_plan(problem, profile, options)
    for _ in range(20):
        run_as_if(choose_plan(problem, profile, options), 1.25)
    later = choose_plan(problem, profile, options)
    ratio = later.predicted.total_seconds / first.predicted.total_seconds
    assert ratio == pytest.approx(1.25, rel=0.02)
    (told,) = describe_plan(later)["profile"]["corrections"]
    assert told["runs"] >= KEPT_RUNS
    assert told["factor"] == pytest.approx(1.25, rel=0.02)


def test_a_gpu_that_takes_longer_than_predicted_leaves_more_to_the_cpu() -> None:
    profile = make_learning_machine()
    problem = GemmProblem(1024, 1024, 1024)
    assert choose_plan(problem, profile).f == 0
    for _ in range(20):
        run_as_if(choose_plan(problem, profile, PlanOptions(f=0)), 30.0)
    assert choose_plan(problem, profile).f == problem.m


def test_runs_outweigh_a_data_sheet_sooner_than_a_calibration() -> None:
    near, own = RunClass(product="near", seconds=1.0), RunClass(product="own", seconds=1.0)
    factors = {}
    for calibrated in (False, True):
        history = RunHistory(None, "test", calibrated=calibrated)
        for _ in range(5):
            history.note(near, 1.0, 1.5)
        factors[calibrated] = history.find(own).factor, history.find(near).factor
        assert 1 < factors[calibrated][0] < factors[calibrated][1] < 1.5
    assert factors[True] < factors[False]


def draw_problem(source: random.Random) -> GemmProblem:
    m, n, k = (round(2 ** source.uniform(7, 14)) for _ in range(3))
    dtype = source.choice(["float32", "float64"])
    return GemmProblem(m, n, k, dtype, source.choice(MEMORIES))


def test_fifty_mixed_products_correct_a_machine_that_was_never_calibrated() -> None:
    """Times differ by memory and bottleneck from predictions, with noise and outliers."""
    source = random.Random(5)
    profile = make_learning_machine()
    errors = []
    for _ in range(250):
        problem = draw_problem(source)
        plan = choose_plan(problem, profile, PlanOptions(f=0))
        (correction,) = plan.corrections
        times = 1.6 if problem.memory == "pageable" else 0.8
        times *= 1.0 if "copies" in correction.run_class.bottleneck else 1.2
        times *= math.exp(source.gauss(0, 0.03)) * (5 if source.random() < 0.03 else 1)
        errors.append(abs(correction.factor / times - 1))
        run_as_if(plan, times)
    assert median(errors[:10]) > 0.12
    assert median(errors[50:]) < 0.08


def test_noise_does_not_change_the_kernel() -> None:
    problem = GemmProblem(4096, 4096, 4096, memory="pinned")
    usual = choose_plan(problem, make_learning_machine(), PlanOptions(f=0))
    for times, stays in ((1.02, True), (1.6, False)):
        profile = make_learning_machine()
        for _ in range(20):
            run_as_if(replace(usual, profile=profile), times)
        assert (choose_plan(problem, profile, PlanOptions(f=0)).spec == usual.spec) == stays


def test_a_kernel_does_not_seem_fast_because_it_never_ran() -> None:
    """All kernels take 1.5 times as long for this product as for others."""
    profile = make_learning_machine()
    problem, options = GemmProblem(6144, 6144, 6144, memory="pinned"), PlanOptions(f=0)
    usual = choose_plan(problem, profile, options)
    slowest_seconds = 0.0
    for _ in range(30):
        plan = choose_plan(problem, profile, options)
        slowest_seconds = max(slowest_seconds, plan.uncorrected_seconds)
        run_as_if(plan, 1.5)
    assert slowest_seconds < 1.1 * usual.uncorrected_seconds
    assert choose_plan(problem, profile, options).spec == usual.spec


def test_a_split_that_took_longer_than_promised_is_not_chosen_again() -> None:
    profile = make_learning_machine()
    problem = GemmProblem(16384, 16384, 256, memory="pinned")
    split = choose_plan(problem, profile)
    assert 0 < split.f < problem.m
    for _ in range(3):
        for one, seconds in zip(split.corrections, (0.01, 0.01), strict=True):
            profile.corrections.note(one.run_class, seconds, 1.4 * seconds)
    assert choose_plan(problem, profile).f == 0


def test_classes_differ_by_device_memory_size_kernel_and_bottleneck() -> None:
    profile = make_learning_machine()
    base = GemmProblem(4096, 4096, 4096)
    others = [
        replace(base, memory="pinned"),
        replace(base, m=16384),
        replace(base, k=64),
        replace(base, dtype="float64"),
    ]

    def classify(problem: GemmProblem) -> set[RunClass]:
        curve = choose_plan(problem, profile, PlanOptions(f=0)).gpu_alone_curve
        spec = choose_plan(problem, profile, PlanOptions(f=0)).spec
        assert curve is not None
        assert spec is not None
        return {
            classify_gpu_run(problem, curve.problem, curve.rates, spec, shared=shared)
            for shared in (False, True)
        } | {classify_cpu_run(problem, 1.0, shared=shared) for shared in (False, True)}

    assert len(classify(base)) == 4
    for other in others:
        assert len(classify(base) & classify(other)) <= 1  # the CPU's class has no memory


def test_an_executor_records_its_runs(tmp_path: Path, kernel_cache: Path) -> None:
    import numpy as np

    with Executor(cache_dir=kernel_cache, cpu_threads=2) as executor:
        provider = ProfileProvider(directory=tmp_path, devices=(), cpu_threads=2)
        problem = GemmProblem(2000, 1000, 1500)  # not brief: of these one in eight is counted
        a, b = np.ones((2000, 1500), "float32"), np.ones((1500, 1000), "float32")
        c = np.empty((2000, 1000), "float32")
        plans = PlanCache()
        for _ in range(6):
            plan = plans.choose(problem, provider.find())
            executor.run(plan, a, b, c)
    (correction,) = choose_plan(problem, provider.find()).corrections
    assert correction.runs == 5, "all but the first, which loads what it needs"
    provider.save_runs()
    again = ProfileProvider(directory=tmp_path, devices=(), cpu_threads=2)
    assert [one.runs for one in again.list_corrections()] == [5]
