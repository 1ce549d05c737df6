"""The plan: a split where it pays, otherwise F = 0 or M; refusals name field, value and limit."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.host.suite import ALL_SHAPES
from tests.environment import ROOT
from tests.limit import allow
from tests.scheduler.profiles import find_preset_profile, make_reference_profile
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.model.cpu import NARROW, CpuShare
from wavetrim.scheduler.model.curves import build_cpu_curve
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, find_split_gain
from wavetrim.scheduler.planning.description import describe_curve, describe_plan
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS, find_preset
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
    measured = json.loads((RESULTS / "host-h200.json").read_text())
    profile = MachineProfile.from_dict(measured["profile"])
    problems = [GemmProblem(*shape, dtype, way) for shape in ALL_SHAPES for way in MEMORIES]
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
    profile = build_preset_profile(PRESETS[0], "test", 16)
    described = {
        memory: describe_plan(choose_plan(GemmProblem(4096, 4096, 4096, memory=memory), profile))
        for memory in MEMORIES
    }
    for memory, plan in described.items():
        assert plan["memory"] == memory
        assert plan["profile"]["link"]["memory"] == memory
    assert [plan["profile"]["cpu"]["threads_beside_gpu"] for plan in described.values()] == [14, 15]


def test_the_cpu_takes_rows_of_a_product_bound_by_copies_out():
    profile = build_preset_profile(next(p for p in PRESETS if p.name == "H200"), "test", 16)
    plan = choose_plan(GemmProblem(16384, 16384, 256, memory="pinned"), profile)
    assert 0.03 * 16384 < plan.f < 0.5 * 16384


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_element_type_has_a_plan_on_every_preset(dtype):
    for gpu in PRESETS:
        profile = build_preset_profile(gpu, "test", 16)
        plan = choose_plan(GemmProblem(3456, 4096, 4096, dtype), profile)
        assert plan.predicted.total_seconds > 0


def test_the_curve_has_every_wave_boundary_and_the_chosen_f():
    profile = build_preset_profile(PRESETS[0], "test", 16)
    plan = choose_plan(GemmProblem(3456, 4096, 4096), profile)
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
    profile = build_preset_profile(PRESETS[0], "test", 16)
    points = describe_curve(choose_plan(GemmProblem(m, n, k), profile, PlanOptions("simple")))
    assert 1 <= len(points) <= 512


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    "shape", [(10**6, 4096, 4096), (10**6, 64, 64), (65536, 256, 256), (4224,) * 3]
)
def test_a_plan_takes_less_than_a_millisecond(shape, memory):
    profile = build_preset_profile(PRESETS[0], "test", 16)
    seconds = []
    for _ in range(20):
        start = time.thread_time()
        choose_plan(GemmProblem(*shape, memory=memory), profile)
        seconds.append(time.thread_time() - start)
    assert min(seconds) < allow(2e-3)  # less than half of it on an idle machine


def test_the_curve_of_a_giant_product_takes_seconds_at_most():
    profile = build_preset_profile(PRESETS[0], "test", 16)
    problem = GemmProblem(10**7, 10**7, 100)
    start = time.perf_counter()
    points = describe_curve(choose_plan(problem, profile, PlanOptions("simple", "8")))
    assert time.perf_counter() - start < allow(2)
    assert len(points) <= 512


def test_a_split_tail_makes_finer_steps_than_a_wave():
    profile = build_preset_profile(PRESETS[0], "test", 16)
    plan = choose_plan(GemmProblem(4224, 4224, 4224), profile, PlanOptions("bulk", "128x256", f=0))
    curve = plan.gpu_curve
    assert (plan.waves, plan.tail_utilization, plan.tail_split) == (5, 0.25, True)
    waves = (curve.kernel_seconds(4224) - curve.rates.launch_seconds) / curve.wave_seconds
    assert 4.25 < waves < 4.3
    seconds = [curve.kernel_seconds(rows) for rows in range(4096, 4224 + 1, 128)]
    assert seconds[0] < seconds[1]
    whole = choose_plan(GemmProblem(4224, 4224, 4224), profile, PlanOptions("register", f=0))
    assert not whole.tail_split


def test_contention_prevents_a_split():
    profile = make_reference_profile(link_gbytes_per_second=0.1)  # bound by its copies
    problem, options = GemmProblem(2048, 2048, 2048), PlanOptions("simple", "4")
    undisturbed = choose_plan(problem, profile, options)
    assert 0 < undisturbed.f < 2048
    shares = tuple(replace(share, link_stretch=3.0) for share in profile.cpu.beside_gpu)
    cpu = replace(profile.cpu, beside_gpu=shares)
    disturbed = choose_plan(problem, replace(profile, cpu=cpu), options)
    assert disturbed.f == 0
    assert disturbed.predicted == undisturbed.predict(0)
    f = undisturbed.f
    assert disturbed.predict(f).gpu_seconds > 2 * undisturbed.predict(f).gpu_seconds


@pytest.mark.parametrize("shape", [(8192, 8192, 32), (32768, 16, 4096), (262144, 64, 64)])
def test_copies_slow_a_cpu_part_that_is_bound_by_memory(shape):
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    memory = {"element_seconds": 2e-10, "narrow_seconds": 2e-12, "copy_columns": 48.0}
    rates = tuple(replace(rate, **memory) for rate in profile.cpu.rates)
    problem = GemmProblem(*shape, memory="pinned")
    seconds = []
    for stretch in (1.0, 2.0):
        shares = tuple(replace(one, memory_stretch=stretch) for one in profile.cpu.beside_gpu)
        cpu = replace(profile.cpu, rates=rates, beside_gpu=shares)
        options = PlanOptions(f=problem.m // 2)
        plan = choose_plan(problem, replace(profile, cpu=cpu), options)
        seconds.append(plan.predicted.cpu_seconds)
    assert 1.5 * seconds[0] < seconds[1] < 2 * seconds[0]


def test_copies_slow_the_cpu_part_less_where_kernels_take_long():
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    shares = tuple(replace(share, stretch=3.0) for share in profile.cpu.beside_gpu)
    profile = replace(profile, cpu=replace(profile.cpu, beside_gpu=shares))
    whole, held = (
        choose_plan(SQUARE, profile, PlanOptions("bulk", f=512, sms=sms)) for sms in (132, 4)
    )
    assert held.cpu_curve.row_seconds < 0.8 * whole.cpu_curve.row_seconds
    assert held.cpu_alone_curve == whole.cpu_alone_curve


def test_packing_costs_the_cpu_what_its_profile_says():
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    narrow = GemmProblem(100_000, 64, 64)

    def find_row_seconds(columns: float) -> float:
        rates = tuple(replace(rate, copy_columns=columns) for rate in profile.cpu.rates)
        cpu = replace(profile.cpu, rates=rates)
        return build_cpu_curve(narrow, replace(profile, cpu=cpu)).row_seconds

    flop_seconds = 1e-9 / profile.find_cpu_rate("float32").gflops
    more_seconds = find_row_seconds(100.0) - find_row_seconds(0.0)
    assert more_seconds == pytest.approx(2 * 64 * 100 * flop_seconds)


def test_narrow_products_take_the_cpu_the_measured_time():
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    rates = tuple(
        replace(rate, narrow_seconds=2e-12, vector_seconds=4e-11, element_seconds=1e-10)
        for rate in profile.cpu.rates
    )
    measured = replace(profile, cpu=replace(profile.cpu, rates=rates))
    for columns in (1, 64, NARROW):
        curve = build_cpu_curve(GemmProblem(100_000, columns, 64), measured)
        assert curve.row_seconds == pytest.approx(max(columns * 64 * 2e-12, 64 * 4e-11))
    outer = build_cpu_curve(GemmProblem(100_000, 64, 1), measured)
    assert outer.row_seconds == pytest.approx(64 * 1e-10)
    share = profile.cpu.list_shares("pageable")[0]
    beside = build_cpu_curve(GemmProblem(100_000, 64, 64), measured, share)
    assert beside.row_seconds > 64 * 64 * 2e-12
    wider = GemmProblem(100_000, NARROW + 1, 64)
    plain = replace(profile, cpu=replace(profile.cpu, rates=tuple(map(_drop_narrow, rates))))
    assert build_cpu_curve(wider, measured) == build_cpu_curve(wider, plain)


@pytest.mark.parametrize(("shape", "threads"), [((2, 1024, 100), 1), ((2, 20_000, 1000), 16)])
def test_a_product_of_two_rows_takes_the_cpu_the_time_of_reading_b(shape, threads):
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    rates = tuple(replace(rate, read_seconds=1e-9) for rate in profile.cpu.rates)
    measured = replace(profile, cpu=replace(profile.cpu, rates=rates))
    m, n, k = shape
    reading_seconds = k * n * 1e-9 / threads
    curve = build_cpu_curve(GemmProblem(m, n, k), measured)
    assert reading_seconds < curve.seconds(m) < 1.5 * reading_seconds


def _drop_narrow(rate):
    return replace(rate, narrow_seconds=0.0)


def test_a_split_adds_start_up_seconds_to_the_cpu_part():
    profile = make_reference_profile()
    for memory in MEMORIES:
        problem = GemmProblem(2048, 2048, 2048, "float32", memory)
        share = CpuShare(memory, profile.cpu.threads, 2)
        alone, beside = (build_cpu_curve(problem, profile, one) for one in (None, share))
        assert 2e-4 < beside.call_seconds - alone.call_seconds < 2e-3


def test_a_slower_cpu_beside_the_gpu_is_given_fewer_rows():
    profile = make_reference_profile()
    problem, options = GemmProblem(2048, 2048, 2048), PlanOptions("simple", "4")
    shares = tuple(replace(share, stretch=2.0) for share in profile.cpu.beside_gpu)
    slower = replace(profile, cpu=replace(profile.cpu, beside_gpu=shares))
    fewer, more = (choose_plan(problem, one, options).f for one in (slower, profile))
    assert 0 < fewer < more


def test_a_gpu_bound_by_its_kernels_leaves_the_cpu_more_threads():
    """Copies are not urgent then, so fewer threads are enough for them."""
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    shares = (
        CpuShare("pageable", threads=6, copiers=8),
        CpuShare("pageable", 14, 1, link_stretch=5.0),
    )
    profile = replace(profile, cpu=replace(profile.cpu, beside_gpu=shares))
    whole = choose_plan(SQUARE, profile, PlanOptions("bulk", f=64))
    held = choose_plan(SQUARE, profile, PlanOptions("bulk", f=512, sms=8))
    assert held.share.threads > whole.share.threads
    assert held.share.copiers < whole.share.copiers


@pytest.mark.parametrize("sms", [132, 32, 8, 4])
@pytest.mark.parametrize("f", ["auto", 1, 100, 1000, 4000])
def test_no_other_share_of_the_cpu_is_faster(f, sms):
    profile = build_preset_profile(find_preset("H200"), "test", 16)
    options = PlanOptions("bulk", f=f, sms=sms)
    chosen = choose_plan(SQUARE, profile, options)
    for share in profile.cpu.list_shares("pageable"):
        only = replace(profile, cpu=replace(profile.cpu, beside_gpu=(share,)))
        other = choose_plan(SQUARE, only, options)
        assert chosen.predicted.total_seconds <= other.predicted.total_seconds


@pytest.mark.parametrize(("size", "measured_seconds"), [(64, 28e-6), (128, 64e-6), (256, 391e-6)])
def test_a_small_product_is_predicted_as_measured_on_one_thread(size, measured_seconds):
    """Measured on an H200's host, in products half a millisecond apart."""
    document = json.loads((RESULTS / "host-h200.json").read_text(encoding="utf-8"))
    profile = MachineProfile.from_dict(document["profile"])
    # Measured before the cost of packing within the caches was.
    rates = tuple(replace(rate, cached_copy_columns=10.0) for rate in profile.cpu.rates)
    profile = replace(profile, cpu=replace(profile.cpu, rates=rates))
    plan = choose_plan(GemmProblem(size, size, size, memory="pinned"), profile)
    assert plan.cpu_only_seconds == pytest.approx(measured_seconds, rel=0.25)
    assert (plan.f == size) == (plan.cpu_only_seconds < plan.gpu_only_seconds)
