"""The plan: a split where it pays, otherwise F = 0 or M; refusals name field, value and limit."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.host.products import SWEPT_SHAPES
from tests.environment import ROOT
from tests.limit import allow, allow_python
from tests.scheduler.profiles import H200, find_preset_profile, make_reference_profile
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.curve_points import describe_curve
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.split import find_split_gain
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

RESULTS = ROOT / "benchmarks" / "results"
CPU_ONLY = find_preset_profile("cpu", cpu_threads=8)
SQUARE = GemmProblem(4096, 4096, 4096)
SIZES = st.integers(1, 20_000)
PROFILES = st.sampled_from([build_preset_profile(gpu, "test", 16) for gpu in PRESETS])


def test_every_row_goes_to_the_cpu_without_a_gpu():
    plan = choose_plan(GemmProblem(224, 256, 192), CPU_ONLY)
    assert plan.f == 224
    assert plan.spec is None
    assert plan.waves == 0
    assert describe_plan(plan)["speedup_over_gpu"] is None


def test_a_few_rows_do_not_help_until_they_remove_a_wave():
    """As in R4's Table 17: at 2048 with W=4 the GPU part takes as long at F = 32 as at F = 0."""
    profile = make_reference_profile()
    problem = GemmProblem(2048, 2048, 2048)
    whole = choose_plan(problem, profile, PlanOptions("simple", "4", 0))
    grid = whole.gpu_curve.grid
    first_useful_f = 2048 - grid.rows_in_waves(whole.waves - 1)
    kernel_seconds = [whole.gpu_curve.kernel_seconds(2048 - f) for f in range(first_useful_f + 1)]
    assert set(kernel_seconds[:-1]) == {kernel_seconds[0]}
    assert kernel_seconds[-1] < kernel_seconds[0]


def test_the_chosen_f_leaves_full_waves():
    profile = make_reference_profile()
    plan = choose_plan(GemmProblem(2048, 2048, 2048), profile, PlanOptions("simple", "4"))
    assert 0 < plan.f < 2048
    assert plan.waves < plan.waves_gpu_only
    grid = plan.gpu_curve.grid
    assert grid.count_waves(plan.gpu_rows + 1) > plan.waves
    best = min(plan.predict(f).total_seconds for f in range(2049))
    assert plan.predicted.total_seconds == best


def test_f_is_zero_where_the_cpu_cannot_remove_a_wave_in_time():
    profile = make_reference_profile(cpu_gflops=0.01)
    plan = choose_plan(GemmProblem(2048, 2048, 2048), profile, PlanOptions("simple", "4"))
    assert plan.f == 0


def test_f_is_m_where_the_copies_cost_more_than_the_product():
    profile = make_reference_profile(cpu_gflops=1000.0, link_gbytes_per_second=0.01)
    assert choose_plan(GemmProblem(64, 64, 64), profile).f == 64


@settings(max_examples=80, deadline=None)
@given(
    *(SIZES, SIZES, SIZES, st.sampled_from(["float32", "float64"])),
    *(st.sampled_from(MEMORIES), PROFILES, st.sampled_from([None, 8])),
)
def test_a_plan_is_never_slower_than_one_device_alone(m, n, k, dtype, memory, profile, sms):
    problem = GemmProblem(m, n, k, dtype, memory)
    plan = choose_plan(problem, profile, PlanOptions(sms=sms))
    total = plan.predicted.total_seconds
    assert total <= plan.cpu_only_seconds
    assert total <= plan.gpu_only_seconds
    if 0 < plan.f < m:
        gpu_only = choose_plan(
            problem, profile, PlanOptions(f=0, sms=sms)
        )  # with the best kernel for it
        alone = min(plan.cpu_only_seconds, plan.gpu_only_seconds, gpu_only.predicted.gpu_seconds)
        assert total <= alone * (1 - find_split_gain(memory))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sms", [None, 32, 8])
def test_splits_on_a_measured_machine_gain_enough_over_the_best_kernel(sms, dtype):
    measured = json.loads((RESULTS / "host-h200-sweeps.json").read_text())
    profile = MachineProfile.from_dict(measured["profile"])
    problems = [GemmProblem(*shape, dtype, way) for shape in SWEPT_SHAPES for way in MEMORIES]
    plans = [(one, choose_plan(one, profile, PlanOptions(sms=sms))) for one in problems]
    splits = [(problem, plan) for problem, plan in plans if 0 < plan.f < problem.m]
    assert len(splits) >= 2
    for problem, plan in splits:
        alone = choose_plan(problem, profile, PlanOptions(f=0, sms=sms)).predicted.gpu_seconds
        promised = alone * (1 - find_split_gain(problem.memory))
        assert plan.predicted.total_seconds <= promised, problem


def allow_for_splits(seconds):
    """The most seconds of a plan whose best split takes `seconds`, but gains too little."""
    return seconds / (1 - find_split_gain("pageable")) * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.integers(1, 4000), st.integers(1, 4000), PROFILES)
def test_a_plan_is_as_fast_as_the_best_f_within_the_worthwhile_gain(m, n, k, profile):
    plan = choose_plan(GemmProblem(m, n, k), profile, PlanOptions("register"))
    best = min(plan.predict(f).total_seconds for f in range(m + 1))
    assert plan.predicted.total_seconds <= allow_for_splits(best)


@pytest.mark.parametrize("f", [0, 1, 100, 224])
def test_a_given_f_is_kept(f):
    plan = choose_plan(
        GemmProblem(224, 256, 192), make_reference_profile(), PlanOptions("simple", f=f)
    )
    assert (plan.f, plan.gpu_rows) == (f, 224 - f)
    assert (plan.spec is None) == (f == 224)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"f": -1}, "f"),
        ({"f": 225}, "f"),
        ({"kernel": "fastest"}, "kernel"),
        ({"kernel": "shared", "tile": "5"}, "tile"),
        ({"tile": "32"}, "tile"),
    ],
)
def test_a_request_that_cannot_be_met_names_its_field(options, field):
    with pytest.raises(PlanError) as caught:
        choose_plan(GemmProblem(224, 256, 192), make_reference_profile(), PlanOptions(**options))
    assert caught.value.field == field
    assert repr(caught.value.value) in str(caught.value)


def test_rows_for_a_gpu_that_is_not_there_are_refused():
    with pytest.raises(PlanError, match="there is no GPU"):
        choose_plan(GemmProblem(10, 10, 10), CPU_ONLY, PlanOptions(f=3))


def test_integers_go_to_the_cpu_even_with_a_gpu():
    plan = choose_plan(GemmProblem(10, 10, 10, "int64"), make_reference_profile())
    assert plan.f == 10
    with pytest.raises(PlanError, match="int64"):
        choose_plan(GemmProblem(10, 10, 10, "int64"), make_reference_profile(), PlanOptions(f=0))


@pytest.mark.parametrize(
    ("field", "value", "limit"),
    [
        *((size, 0, "at least 1") for size in "mnk"),
        ("memory", "mapped", "one of pageable, pinned"),
        ("dtype", "complex256", "one of "),
    ],
)
def test_a_malformed_problem_is_refused(field, value, limit):
    with pytest.raises(ProblemError, match=f"^{field} is {value!r}; it must be {limit}"):
        GemmProblem(**{"m": 1, "n": 1, "k": 1, field: value})


@settings(max_examples=50, deadline=None)
@given(SIZES, SIZES, SIZES, PROFILES)
def test_pinned_operands_never_take_longer_than_pageable_ones(m, n, k, profile):
    pageable, pinned = (choose_plan(GemmProblem(m, n, k, memory=one), profile) for one in MEMORIES)
    allowed = allow_for_splits(allow_for_splits(pageable.predicted.total_seconds))
    assert pinned.predicted.total_seconds <= allowed


def test_the_memory_of_the_operands_decides_link_and_threads():
    described = {
        memory: describe_plan(choose_plan(GemmProblem(4096, 4096, 4096, memory=memory), H200))
        for memory in MEMORIES
    }
    for memory, plan in described.items():
        assert plan["memory"] == memory
        assert plan["profile"]["link"]["memory"] == memory
    assert [plan["profile"]["cpu"]["threads_beside_gpu"] for plan in described.values()] == [14, 15]


def test_the_cpu_takes_rows_of_a_product_bound_by_copies_out():
    plan = choose_plan(GemmProblem(16384, 16384, 256, memory="pinned"), H200)
    assert 0.03 * 16384 < plan.f < 0.5 * 16384


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_element_type_has_a_plan_on_every_preset(dtype):
    for gpu in PRESETS:
        profile = build_preset_profile(gpu, "test", 16)
        plan = choose_plan(GemmProblem(3456, 4096, 4096, dtype), profile)
        assert plan.predicted.total_seconds > 0


def test_the_curve_has_every_wave_boundary_and_the_chosen_f():
    plan = choose_plan(GemmProblem(3456, 4096, 4096), H200)
    points = describe_curve(plan)
    drawn = [point["f"] for point in points]
    grid = plan.gpu_curve.grid
    boundaries = {3456 - grid.rows_in_waves(w) for w in range(1, grid.count_waves(3456))}
    assert boundaries <= set(drawn)
    assert {0, plan.f, 3456} <= set(drawn)
    assert drawn == sorted(set(drawn))
    for point in points:
        assert point["total_seconds"] == max(point["gpu_seconds"], point["cpu_seconds"])


@settings(max_examples=25, deadline=None)
@given(SIZES, SIZES, SIZES)
def test_the_curve_is_thinned_to_512_points(m, n, k):
    points = describe_curve(choose_plan(GemmProblem(m, n, k), H200, PlanOptions("simple")))
    assert 1 <= len(points) <= 512


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    "shape", [(10**6, 4096, 4096), (10**6, 64, 64), (65536, 256, 256), (4224,) * 3]
)
def test_a_plan_takes_less_than_a_millisecond(shape, memory):
    seconds = []
    for _ in range(20):
        start = time.thread_time()
        choose_plan(GemmProblem(*shape, memory=memory), H200)
        seconds.append(time.thread_time() - start)
    assert min(seconds) < allow_python(2e-3)


def test_the_curve_of_a_giant_product_takes_seconds_at_most():
    problem = GemmProblem(10**7, 10**7, 100)
    start = time.perf_counter()
    points = describe_curve(choose_plan(problem, H200, PlanOptions("simple", "8")))
    assert time.perf_counter() - start < allow(2)
    assert len(points) <= 512


def test_a_split_tail_makes_finer_steps_than_a_wave():
    plan = choose_plan(GemmProblem(4224, 4224, 4224), H200, PlanOptions("bulk", "128x256", f=0))
    curve = plan.gpu_curve
    assert (plan.waves, plan.tail_utilization, plan.tail_split) == (5, 0.25, True)
    waves = (curve.kernel_seconds(4224) - curve.rates.launch_seconds) / curve.wave_seconds
    assert 4.25 < waves < 4.3
    seconds = [curve.kernel_seconds(rows) for rows in range(4096, 4224 + 1, 128)]
    assert seconds[0] < seconds[1]
    whole = choose_plan(GemmProblem(4224, 4224, 4224), H200, PlanOptions("register", f=0))
    assert not whole.tail_split
