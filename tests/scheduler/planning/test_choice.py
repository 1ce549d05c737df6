"""The plan: the CPU alone, the GPU alone, or a split where that pays; its seconds over F.

Then the seconds of the CPU's rows: its start, its arithmetic, its bytes; and beside a GPU.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import H200, change_cpu, find_preset_profile, make_small_machine
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.schedule.steps import cut_steps
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import SPLIT_GAIN, choose_plan, choose_plan_on
from wavetrim.scheduler.planning.cpu_rows import CALL_SECONDS, CONTENTION, find_cpu_seconds
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.planning.drawing import describe_curve, list_edges
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
from wavetrim.scheduler.profile.machine import LEAST_MEMORY_BYTES, CpuModel
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if

SMALL = make_small_machine()
SQUARE = GemmProblem(1000, 1000, 1000, memory="pinned")
SIZES = st.integers(1, 20_000)
problems = st.builds(
    GemmProblem, SIZES, SIZES, SIZES, st.sampled_from(["float32", "float64"]),
    st.sampled_from(MEMORIES),
)  # fmt: skip
presets = st.sampled_from([build_preset_profile(gpu, "test", 16) for gpu in PRESETS])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    m=st.integers(300, 1000), n=st.integers(500, 1500), k=st.integers(500, 1500),
    dtype=st.sampled_from(["float32", "float64"]), memory=st.sampled_from(MEMORIES),
    link=st.floats(0.1, 10),
)  # fmt: skip
def test_f_is_a_best_one_of_all_rows_of_tiles(m, n, k, dtype, memory, link):
    """Or the faster device's rows, if no split gains enough over that."""
    profile = make_small_machine(in_gbytes_per_second=link)
    plan = choose_plan(GemmProblem(m, n, k, dtype, memory), profile)
    tile_m = plan.side.spec.tile.m

    def find_seconds(f):
        return plan.give_cpu(f).chosen_seconds

    alone_seconds = min(find_seconds(0), find_seconds(m))
    split_seconds = min(map(find_seconds, range(m - tile_m, 0, -tile_m)), default=alone_seconds)
    promised = (1 - SPLIT_GAIN[memory]) * alone_seconds
    best = split_seconds if split_seconds <= promised else alone_seconds
    assert plan.chosen_seconds <= 1.01 * best


@pytest.mark.parametrize(
    ("device", "threads", "shape"),
    [("L4 x4", 16, (9539, 186, 149)), ("RTX 4090", 16, (5132, 239, 156))],
)  # fmt: skip
def test_f_is_searched_until_a_row_of_tiles_comes_again(device, threads, shape):
    """Here the bound of the GPUs' time is too short at one row, and too long at the next."""
    problem = GemmProblem(*shape, "float64", "pinned")
    plan = choose_plan(problem, find_preset_profile(device, threads))
    tile_m = plan.spec.tile.m
    rows = range(problem.m - tile_m, 0, -tile_m)
    assert plan.chosen_seconds <= 1.001 * min(plan.give_cpu(f).chosen_seconds for f in rows)


@settings(max_examples=60, deadline=None)
@given(
    problem=problems, device=st.sampled_from(PRESETS), base=st.integers(2, 64),
    threads=st.lists(st.integers(2, 256), min_size=2, max_size=2), sms=st.sampled_from([None, 8]),
)  # fmt: skip
def test_more_threads_of_the_cpu_make_nothing_slower(problem, device, base, threads, sms):
    """With each F. The chosen one may lose what a split must promise, once one device is faster."""
    profile, options = build_preset_profile(device, "test", base), PlanOptions(sms=sms)
    few, more = (
        choose_plan(problem, apply_what_if(profile, WhatIf(count), problem.dtype), options)
        for count in sorted(threads)
    )
    for f in (1, problem.m // 2, problem.m):
        assert more.predict(f).cpu_seconds <= few.predict(f).cpu_seconds * (1 + 1e-9)
    promised = 1 - SPLIT_GAIN[problem.memory]
    assert more.chosen_seconds <= 1.01 * few.chosen_seconds / promised


@settings(max_examples=60, deadline=None)
@given(problem=problems, profile=presets, sms=st.sampled_from([None, 8]))
def test_a_split_promises_its_gain_over_the_better_device(problem, profile, sms):
    plan = choose_plan(problem, profile, PlanOptions(sms=sms))
    gpu = choose_plan(problem, profile, PlanOptions(sms=sms, f=0)).chosen_seconds
    cpu = choose_plan(problem, profile, PlanOptions(sms=sms, f=problem.m)).chosen_seconds
    promised = (1 - SPLIT_GAIN[problem.memory]) * min(gpu, cpu)
    assert plan.chosen_seconds <= (promised if 0 < plan.f < problem.m else min(gpu, cpu))
    if plan.refused is not None:
        assert promised < plan.refused.chosen_seconds < min(gpu, cpu)


def rate_cpu(gflops):
    return change_cpu(SMALL, float32_gflops=gflops, thread_gflops=gflops / 8)


def test_the_cpu_takes_more_rows_the_faster_it_is():
    plans = [choose_plan(SQUARE, rate_cpu(gflops)) for gflops in (0.1, 10, 40, 4000)]
    rows = [plan.f for plan in plans]
    assert rows[0] == 0 < rows[1] < rows[2] < rows[3] == 1000
    assert plans[2].waves < plans[2].waves_gpu_only
    assert (plans[0].spec is None, plans[3].spec is None) == (False, True)


def test_a_split_that_gains_too_little_is_told():
    tall = replace(SQUARE, m=3000)  # a wave of it is a few per cent
    plans = [choose_plan(tall, rate_cpu(gflops)) for gflops in range(1, 20)]
    refused = [plan for plan in plans if plan.refused is not None]
    assert refused
    for plan in refused:
        assert plan.f == 0
        assert 0.95 * plan.chosen_seconds < plan.refused.chosen_seconds < plan.chosen_seconds


@settings(max_examples=30, deadline=None)
@given(problem=problems, profile=presets, sms=st.sampled_from([None, 8]))
def test_the_list_of_parts_that_is_priced_is_the_one_that_runs(problem, profile, sms):
    plan = choose_plan(problem, profile, PlanOptions(sms=sms))
    for part in plan.gpu_parts:
        steps = cut_steps(part.problem, part.cut, part.memory_bytes).steps
        spans = part.trace()
        run = [(step.rows, step.columns, step.depth, step.a_depth, step.begins_b) for step in steps]
        assert [span.part for span in spans] == run
        assert spans[-1].copy_out[1] == part.seconds


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 0, 5), (5, 5, 0)])
def test_an_empty_product_is_the_cpus_and_its_options_are_checked(shape):
    problem = GemmProblem(*shape, may_be_empty=True)
    assert choose_plan(problem, H200).device_set == {CPU}
    with pytest.raises(PlanError, match="kernel is 'fastest'"):
        choose_plan(problem, H200, PlanOptions("fastest"))


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_element_type_has_a_plan_on_every_preset(dtype):
    for gpu in PRESETS:
        profile = build_preset_profile(gpu, "test", 16)
        plan = choose_plan(GemmProblem(3456, 4096, 4096, dtype), profile)
        assert plan.predicted.total_seconds > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex128"])
def test_products_are_planned_for_the_least_memory(dtype):
    profile = replace(H200, gpu=replace(H200.gpu, memory_bytes=LEAST_MEMORY_BYTES))
    kernels = list_kernels(dtype=dtype, compute_capability=profile.gpu.compute_capability)
    for shape in ((1, 1, 1), (4096, 4096, 4096), (65536, 64, 100_000)):
        problem = GemmProblem(*shape, dtype)
        for spec in kernels:
            if problem.k >= spec.least_k:
                options = PlanOptions(f=0, kernel=spec.name, tile=str(spec.tile))
                plan = choose_plan(problem, profile, options)
                assert math.isfinite(plan.predicted.total_seconds)


SPLIT = choose_plan(SQUARE, SMALL)
TWO = find_preset_profile("H100 SXM x2")
WIDE = choose_plan_on(GemmProblem(1000, 16384, 8192), TWO, PlanOptions("cublas"), (0, 1))


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


MODEL = CpuModel(
    threads=16, float32_gflops=1000.0, float64_gflops=500.0, thread_gflops=100.0,
    read_gbytes_per_second=100.0, write_gbytes_per_second=50.0, copy_gbytes_per_second=20.0,
    start_seconds=1e-4, source="a test",
)  # fmt: skip
START_SECONDS = CALL_SECONDS + 1e-4
LARGE = GemmProblem(8192, 8192, 8192)
FLOP_SECONDS = 2 * 4096 * 8192**2 / 1e12
"""Of half of its rows."""


def test_an_example_by_hand():
    """Half of the rows; a sixteenth of C stays in the caches."""
    read_seconds = (8192 + 4096 + 4096 / 16) * 8192 * 4 / 100e9
    write_seconds = 4096 * 15 / 16 * 8192 * 4 / 50e9
    seconds = START_SECONDS + FLOP_SECONDS + read_seconds + write_seconds
    assert find_cpu_seconds(LARGE, MODEL, 4096) == pytest.approx(seconds)
    assert find_cpu_seconds(LARGE, MODEL, 0) == 0.0


@pytest.mark.parametrize(("memory", "threads"), [("pinned", 15), ("pageable", 14)])
def test_beside_a_gpu_memory_is_slower_and_the_cpu_begins_late(memory, threads):
    """Arithmetic is slower by the threads that copy."""
    problem, contention = replace(LARGE, memory=memory), CONTENTION[memory]
    byte_seconds = find_cpu_seconds(problem, MODEL, 4096) - START_SECONDS - FLOP_SECONDS
    seconds = CALL_SECONDS + 1e-4 * threads / 16 + FLOP_SECONDS * 16 / threads
    seconds += contention.start_seconds + contention.memory * byte_seconds
    found = find_cpu_seconds(problem, MODEL, 4096, beside_gpu=True)
    assert found == pytest.approx(seconds)
    assert find_cpu_seconds(problem, MODEL, 0, beside_gpu=True) == 0.0
