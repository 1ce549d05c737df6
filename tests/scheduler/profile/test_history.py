"""Runs correct predictions of similar products, in this and in later processes."""

import json
import math
import random
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from tests.limit import allow
from tests.scheduler.clock import Clock
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.model.corrections import RunClass, classify_cpu_run, classify_gpu_run
from wavetrim.scheduler.model.device_runs import KEPT_CLASSES, KEPT_RUNS
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.trial import TRIAL_EXCESS, TRIAL_INTERVAL
from wavetrim.scheduler.problem import MEMORIES, GemmProblem
from wavetrim.scheduler.profile.history import SAVE_SECONDS, RunHistory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import find_preset
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import build_preset_profile

CLASS = RunClass("gpu from pinned memory", "", "copies in", "500x600x700 float32", 0.01)
OTHER = replace(CLASS, product="700x600x500 float32")


def make_history(path: Path | None = None, basis: str = "test") -> RunHistory:
    return RunHistory(path, basis)


def note(history: RunHistory, ratio: float, times: int, run_class: RunClass = CLASS) -> None:
    for _ in range(times):
        history.note(run_class, 0.01, 0.01 * ratio)


def test_a_class_that_never_ran_is_not_corrected() -> None:
    found = make_history().find(CLASS)
    assert (found.factor, found.runs) == (1.0, 0)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.07, 3.0])
def test_the_factor_approaches_the_ratio_of_the_runs(ratio: float) -> None:
    history = make_history()
    errors = []
    for _ in range(KEPT_RUNS):
        note(history, ratio, 1)
        errors.append(abs(math.log(history.find(CLASS).factor / ratio)))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02 * abs(math.log(ratio))
    assert history.find(CLASS).runs == KEPT_RUNS


def test_an_outlier_among_runs_is_ignored() -> None:
    history = make_history()
    note(history, 1.1, 4)
    before = history.find(CLASS).factor
    note(history, 50.0, 1)
    assert history.find(CLASS).factor == pytest.approx(before, rel=0.03)


def test_a_single_run_far_from_its_neighbours_is_not_followed() -> None:
    history = make_history()
    for number in range(3):
        note(history, 1.1, 3, replace(CLASS, product=str(number)))
    note(history, 50.0, 1)
    assert history.find(CLASS).factor < 1.11
    note(history, 50.0, 1)
    note(history, 50.0, 1)
    assert history.find(CLASS).factor > 10


def test_old_runs_are_forgotten() -> None:
    history = make_history()
    note(history, 2.0, 100)
    note(history, 1.0, KEPT_RUNS)
    assert history.find(CLASS).factor == 1.0


def test_a_new_product_is_corrected_by_those_of_similar_seconds() -> None:
    history = make_history()
    note(history, 1.5, 10)
    factors = []
    for times in (1.0, 1.5, 2.5, 3.9):
        found = history.find(replace(OTHER, seconds=CLASS.seconds * times))
        assert found.runs == 10
        factors.append(found.factor)
    assert 1.3 < factors[0] < 1.5
    assert factors == sorted(factors, reverse=True)
    far = history.find(replace(OTHER, seconds=CLASS.seconds * 5))
    assert (far.factor, far.runs) == (1.0, 0)


def test_small_products_do_not_correct_large_ones() -> None:
    """From pageable memory, a start of 0.25 ms doubles the time of the smallest products."""
    history = make_history()
    for number in range(20):
        note(history, 2.0, 3, replace(CLASS, product=str(number), seconds=0.00025))
    assert history.find(replace(CLASS, seconds=0.02)).factor == 1.0


def test_another_bottleneck_corrects_less_and_another_device_nothing() -> None:
    history = make_history()
    note(history, 2.0, 1)
    same, bound = history.find(OTHER), history.find(replace(OTHER, bottleneck="copies out"))
    assert 1 < bound.factor < same.factor
    assert history.find(replace(OTHER, device="gpu from pageable memory")).factor == 1.0


def test_runs_alone_correct_splits_but_not_the_reverse() -> None:
    alone, split = (replace(CLASS, beside=beside) for beside in ("", "cpu"))
    history = make_history()
    note(history, 2.0, 10, split)
    assert history.find(alone).factor == 1.0
    assert history.find(split).factor > 1.9
    history = make_history()
    note(history, 2.0, 10, alone)
    assert 1.1 < history.find(split).factor < history.find(alone).factor


def test_a_class_has_run_once_similar_products_have() -> None:
    history = make_history()
    note(history, 1.0, 1)
    assert history.has_run(OTHER)
    for never in ("bottleneck", "beside", "device"):
        assert not history.has_run(replace(CLASS, **{never: "another"}))
    assert not history.has_run(replace(CLASS, seconds=4 * CLASS.seconds))


def test_the_classes_that_ran_last_are_kept() -> None:
    history = make_history()
    for number in range(2 * KEPT_CLASSES):
        note(history, 2.0, 1, replace(CLASS, product=str(number)))
        note(history, 3.0, 1)
    kept = {one.run_class.product for one in history.list_all()}
    assert len(kept) == KEPT_CLASSES
    assert {CLASS.product, str(2 * KEPT_CLASSES - 1)} <= kept
    assert "0" not in kept


def test_the_next_process_reads_the_runs_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    first = make_history(path)
    note(first, 1.2, 5)
    first.save()
    again = make_history(path)
    assert again.find(CLASS) == first.find(CLASS)
    assert again.list_all() == first.list_all()


def test_runs_on_another_basis_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    first = make_history(path)
    note(first, 1.2, 5)
    first.save()
    assert make_history(path, basis="calibrated since").find(CLASS).runs == 0


def test_processes_that_share_a_file_add_their_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    one, other = make_history(path), make_history(path)
    note(one, 1.2, 3)
    one.save()
    note(other, 1.2, 4, OTHER)
    other.save()
    third = make_history(path)
    assert {one.run_class: one.runs for one in third.list_all()} == {CLASS: 3, OTHER: 4}
    assert [one.runs for one in third.list_factors()] == [7]


def test_a_reader_sees_new_runs_after_a_second(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "runs.json"
    reader = RunHistory(path, "test", clock)
    writer = make_history(path)
    note(writer, 1.2, 3)
    writer.save()
    clock.now += 1
    reader.refresh()
    assert reader.find(CLASS).runs == 3


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 2, "basis": "test"}'])
def test_an_unreadable_file_is_ignored_and_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "runs.json"
    path.write_text(content)
    history = make_history(path)
    assert history.find(CLASS).runs == 0
    note(history, 1.2, 1)
    history.save()
    assert json.loads(path.read_text())["basis"] == "test"


def test_without_its_folder_runs_are_kept_in_memory_only(tmp_path: Path) -> None:
    history = make_history(tmp_path / "missing" / "runs.json")
    note(history, 1.2, 2)
    history.save()
    assert history.find(CLASS).runs == 2
    assert not (tmp_path / "missing").exists()


def test_save_writes_runs_that_are_not_due_yet(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "runs.json"
    history = RunHistory(path, "test", clock)
    note(history, 1.2, 1)
    clock.now = SAVE_SECONDS / 2
    note(history, 1.2, 1)
    history.save()
    assert make_history(path).find(CLASS).runs == 2


def make_machine(history: RunHistory) -> MachineProfile:
    """A machine with an H200 by its data sheet, and a history."""
    preset = find_preset("H200")
    assert preset is not None
    return replace(build_preset_profile(preset, "test", 16), corrections=history)


def run_as_if(plan: Plan, times: float) -> None:
    """Record a run of a one-device plan that took `times` its uncorrected prediction."""
    (correction,) = plan.corrections
    seconds = plan.predicted.total_seconds / correction.factor
    plan.profile.corrections.note(correction.run_class, seconds, seconds * times)


def test_products_of_one_thread_are_corrected_too() -> None:
    profile = make_machine(make_history())
    problem = GemmProblem(64, 64, 64)
    first = choose_plan(problem, profile)
    assert first.f == 64
    for _ in range(20):
        run_as_if(choose_plan(problem, profile), 1.5)
    later = choose_plan(problem, profile, PlanOptions(f=64))
    ratio = later.predicted.total_seconds / first.predicted.total_seconds
    assert ratio == pytest.approx(1.5, rel=0.02)


def test_products_that_took_longer_are_predicted_longer() -> None:
    profile = make_machine(make_history())
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
    profile = make_machine(make_history())
    problem = GemmProblem(1024, 1024, 1024)
    assert choose_plan(problem, profile).f == 0
    for _ in range(20):
        run_as_if(choose_plan(problem, profile, PlanOptions(f=0)), 30.0)
    assert choose_plan(problem, profile).f == problem.m


def test_a_cached_plan_is_made_anew_once_runs_correct_it() -> None:
    profile = make_machine(make_history())
    plans = PlanCache()
    problem = GemmProblem(4096, 4096, 4096, memory="pinned")
    first = plans.choose(problem, profile)
    assert plans.choose(problem, profile) is first
    for _ in range(5):
        run_as_if(first, 1.3)
    later = plans.choose(problem, profile)
    assert later is not first
    assert plans.choose(problem, profile) is later


def test_one_of_fifty_products_may_be_a_trial_of_what_never_ran() -> None:
    profile = make_machine(make_history())
    plans = PlanCache(explores=True)
    problem = GemmProblem(4096, 4096, 4096, memory="pinned")
    best = choose_plan(problem, profile)
    run_as_if(best, 1.0)
    chosen = [plans.choose_next(problem, profile) for _ in range(2 * TRIAL_INTERVAL)]
    trials = [plan for plan in chosen if (plan.spec, plan.f) != (best.spec, best.f)]
    assert 0 < len(trials) <= 2
    most_seconds = best.predicted.total_seconds * (1 + TRIAL_EXCESS)
    assert all(plan.predicted.total_seconds <= most_seconds for plan in trials)


def test_there_is_no_trial_if_switched_off_or_f_is_given_or_all_has_run() -> None:
    profile = make_machine(make_history())
    problem = GemmProblem(4096, 4096, 4096, memory="pinned")
    best = choose_plan(problem, profile)
    products = range(3 * TRIAL_INTERVAL)
    off, on = PlanCache(), PlanCache(explores=True)
    assert {off.choose_next(problem, profile).spec for _ in products} == {best.spec}
    given = PlanOptions(f=0)
    chosen = choose_plan(problem, profile, given).spec
    assert {on.choose_next(problem, profile, given).spec for _ in products} == {chosen}
    for _ in products:
        run_as_if(on.choose_next(problem, profile), 1.0)
    assert {on.choose_next(problem, profile).spec for _ in products} == {best.spec}


def draw_problem(source: random.Random) -> GemmProblem:
    m, n, k = (round(2 ** source.uniform(7, 14)) for _ in range(3))
    dtype = source.choice(["float32", "float64"])
    return GemmProblem(m, n, k, dtype, source.choice(MEMORIES))


def test_fifty_mixed_products_correct_a_machine_that_was_never_calibrated() -> None:
    """Times differ by memory and bottleneck from predictions, with noise and outliers."""
    source = random.Random(5)
    profile = make_machine(make_history())
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
    usual = choose_plan(problem, make_machine(make_history()), PlanOptions(f=0))
    for times, stays in ((1.02, True), (1.4, False)):
        profile = make_machine(make_history())
        for _ in range(20):
            run_as_if(replace(usual, profile=profile), times)
        assert (choose_plan(problem, profile, PlanOptions(f=0)).spec == usual.spec) == stays


def test_a_kernel_does_not_seem_fast_because_it_never_ran() -> None:
    """All kernels take 1.5 times as long for this product as for others."""
    profile = make_machine(make_history())
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
    profile = make_machine(make_history())
    problem = GemmProblem(16384, 16384, 256, memory="pinned")
    split = choose_plan(problem, profile)
    assert 0 < split.f < problem.m
    for _ in range(3):
        for one, seconds in zip(split.corrections, (0.01, 0.01), strict=True):
            profile.corrections.note(one.run_class, seconds, 1.4 * seconds)
    assert choose_plan(problem, profile).f == 0


def test_the_correction_of_a_known_shape_is_found_within_a_millisecond() -> None:
    history = make_history()
    for number in range(KEPT_CLASSES):
        note(history, 1.1, 1, replace(CLASS, product=str(number)))
    begun = time.perf_counter()
    for _ in range(200):
        note(history, 1.1, 1)
        history.find(CLASS)
    assert (time.perf_counter() - begun) / 200 < allow(1e-3)


def test_classes_differ_by_device_memory_size_kernel_and_bottleneck() -> None:
    profile = make_machine(make_history())
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
