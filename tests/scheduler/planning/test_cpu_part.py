"""What the CPU part of a product takes, alone and in a split."""

from dataclasses import replace

import pytest

from tests.environment import ROOT
from tests.scheduler.profiles import H200, change_rates, change_shares, make_reference_profile
from wavetrim.scheduler.model.cpu import NARROW, CpuShare
from wavetrim.scheduler.model.curves import STREAMED_BYTES, STREAMED_TIMES, build_cpu_curve
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem

RESULTS = ROOT / "benchmarks" / "results"
SQUARE = GemmProblem(4096, 4096, 4096)


def test_contention_prevents_a_split():
    profile = make_reference_profile(link_gbytes_per_second=0.1)  # bound by its copies
    problem, options = GemmProblem(2048, 2048, 2048), PlanOptions("simple", "4")
    undisturbed = choose_plan(problem, profile, options)
    assert 0 < undisturbed.f < 2048
    disturbed = choose_plan(problem, change_shares(profile, link_stretch=3.0), options)
    assert disturbed.f == 0
    assert disturbed.predicted == undisturbed.predict(0)
    f = undisturbed.f
    assert disturbed.predict(f).gpu_seconds > 2 * undisturbed.predict(f).gpu_seconds


@pytest.mark.parametrize("shape", [(8192, 8192, 32), (32768, 16, 4096), (262144, 64, 64)])
def test_copies_slow_a_cpu_part_that_is_bound_by_memory(shape):
    profile = change_rates(
        H200, element_seconds=2e-10, write_seconds=2e-10, narrow_seconds=2e-12, copy_columns=48.0
    )
    problem = GemmProblem(*shape, memory="pinned")
    alone, beside = (
        choose_plan(
            problem, change_shares(profile, memory_stretch=one), PlanOptions(f=shape[0] // 2)
        )
        for one in (1.0, 2.0)
    )
    seconds = alone.predicted.cpu_seconds
    assert 1.5 * seconds < beside.predicted.cpu_seconds < 2 * seconds


def test_the_model_and_the_c_agree_on_what_is_written_past_the_caches():
    source = (ROOT / "cpu" / "native" / "streamed.c").read_text(encoding="utf-8")
    assert f"LEAST_TIMES = {STREAMED_TIMES}," in source
    assert f"MOST_CACHE_BYTES = {STREAMED_BYTES >> 20} << 20," in source


def test_a_c_that_no_cache_holds_is_written_to_memory_whole():
    """The CPU writes it past the caches, so these hold none of it."""
    model = replace(H200.cpu, cache_bytes=64 << 20)
    profile = change_rates(replace(H200, cpu=model), write_seconds=1e-10, element_seconds=1e-12)
    outer = GemmProblem(8192, 8192, 1)
    assert build_cpu_curve(outer, profile).row_seconds == pytest.approx(8192 * 1e-10)
    cached = GemmProblem(4096, 4096, 1)
    assert build_cpu_curve(cached, profile).row_seconds < 4096 * 1e-10 / 2


def test_an_element_of_c_costs_at_most_its_writing_where_that_is_past_the_caches():
    """In float64 rows of A are short enough for that up to K = 32."""
    profile = change_rates(H200, element_seconds=3e-10, write_seconds=1e-10)
    flop_seconds = 1e-9 / profile.find_cpu_rate("float64").gflops
    columns = 8192 + profile.find_cpu_rate("float64").copy_columns
    for k, element_seconds in ((32, 1e-10), (33, 3e-10)):
        row_seconds = build_cpu_curve(GemmProblem(8192, 8192, k, "float64"), profile).row_seconds
        beyond_seconds = row_seconds - 2 * k * columns * flop_seconds
        assert beyond_seconds == pytest.approx(8192 * element_seconds)


def test_the_cpu_slows_copies_by_the_share_of_its_time_in_which_it_writes():
    profile = change_shares(H200, link_stretch=1.0, write_link_stretch=2.0)
    rate = profile.find_cpu_rate("float32")
    stretches = {}
    for k in (1, 64, 8192):
        problem = GemmProblem(16384, 8192, k, memory="pinned")
        stretches[k] = choose_plan(problem, profile, PlanOptions(f=8192)).share.link_stretch
    assert 1.9 < stretches[1] < 2
    row_seconds = build_cpu_curve(GemmProblem(16384, 8192, 64), profile).row_seconds
    assert stretches[64] == pytest.approx(1 + 8192 * rate.write_seconds / row_seconds)
    assert 1 < stretches[8192] < 1.1


def test_beside_copies_only_a_c_past_the_caches_is_written_at_its_own_rate():
    large, small = (GemmProblem(m, 8192, 1, memory="pinned") for m in (16384, 2048))
    for problem, is_slower in ((large, True), (small, False)):
        one, other = (
            choose_plan(
                problem,
                change_shares(H200, memory_stretch=1.0, write_stretch=stretch),
                PlanOptions(f=problem.m // 2),
            ).cpu_curve.row_seconds
            for stretch in (1.0, 3.0)
        )
        assert other > 2 * one if is_slower else other == one


def test_a_cpu_part_of_one_row_begins_and_ends_as_one_of_many_does():
    profile = change_rates(change_shares(H200, late_seconds=3e-4), vector_seconds=4e-11)
    for shape in ((16897, 256, 256), (4096, 4096, 4096)):
        plan = choose_plan(GemmProblem(*shape, memory="pinned"), profile, PlanOptions(f=1))
        call_seconds = profile.find_cpu_rate("float32").call_seconds
        assert plan.predicted.cpu_seconds >= call_seconds + plan.share.late_seconds


def test_copies_slow_the_cpu_part_less_where_kernels_take_long():
    profile = change_shares(H200, stretch=3.0)
    whole, held = (
        choose_plan(SQUARE, profile, PlanOptions("bulk", f=512, sms=sms)) for sms in (132, 4)
    )
    assert held.cpu_curve.row_seconds < 0.8 * whole.cpu_curve.row_seconds
    assert held.cpu_alone_curve == whole.cpu_alone_curve


def test_packing_costs_the_cpu_what_its_profile_says():
    narrow = GemmProblem(100_000, 64, 64)

    def find_row_seconds(columns: float) -> float:
        return build_cpu_curve(narrow, change_rates(H200, copy_columns=columns)).row_seconds

    flop_seconds = 1e-9 / H200.find_cpu_rate("float32").gflops
    more_seconds = find_row_seconds(100.0) - find_row_seconds(0.0)
    assert more_seconds == pytest.approx(2 * 64 * 100 * flop_seconds)


def test_narrow_products_take_the_cpu_the_measured_time():
    measured = change_rates(H200, narrow_seconds=2e-12, vector_seconds=4e-11, write_seconds=1e-10)
    for columns in (1, 64, NARROW):
        curve = build_cpu_curve(GemmProblem(100_000, columns, 64), measured)
        assert curve.row_seconds == pytest.approx(max(columns * 64 * 2e-12, 64 * 4e-11))
    outer = build_cpu_curve(GemmProblem(100_000, 64, 1), measured)
    assert outer.row_seconds == pytest.approx(64 * 1e-10)
    share = H200.cpu.list_shares("pageable")[0]
    beside = build_cpu_curve(GemmProblem(100_000, 64, 64), measured, share)
    assert beside.row_seconds > 64 * 64 * 2e-12
    wider = GemmProblem(100_000, NARROW + 1, 64)
    plain = change_rates(measured, narrow_seconds=0.0)
    assert build_cpu_curve(wider, measured) == build_cpu_curve(wider, plain)


@pytest.mark.parametrize(("shape", "threads"), [((2, 1024, 100), 1), ((2, 20_000, 1000), 16)])
def test_a_product_of_two_rows_takes_the_cpu_the_time_of_reading_b(shape, threads):
    measured = change_rates(H200, read_seconds=1e-9)
    m, n, k = shape
    reading_seconds = k * n * 1e-9 / threads
    curve = build_cpu_curve(GemmProblem(m, n, k), measured)
    assert reading_seconds < curve.seconds(m) < 1.5 * reading_seconds


def test_a_split_adds_start_up_seconds_to_the_cpu_part():
    profile = make_reference_profile()
    for memory in MEMORIES:
        problem = GemmProblem(2048, 2048, 2048, "float32", memory)
        share = CpuShare(memory, profile.cpu.threads, 2, late_seconds=3e-4)
        alone, beside = (build_cpu_curve(problem, profile, one) for one in (None, share))
        assert beside.call_seconds - alone.call_seconds == pytest.approx(3e-4)


def test_a_slower_cpu_beside_the_gpu_is_given_fewer_rows():
    profile = make_reference_profile()
    problem, options = GemmProblem(2048, 2048, 2048), PlanOptions("simple", "4")
    slower = change_shares(profile, stretch=3.0)
    fewer, more = (choose_plan(problem, one, options).f for one in (slower, profile))
    assert 0 < fewer < more


def test_a_gpu_bound_by_its_kernels_leaves_the_cpu_more_threads():
    """Copies are not urgent then, so fewer threads are enough for them."""
    shares = (
        CpuShare("pageable", threads=6, copiers=8),
        CpuShare("pageable", 14, 1, link_stretch=5.0),
    )
    profile = replace(H200, cpu=replace(H200.cpu, beside_gpu=shares))
    whole = choose_plan(SQUARE, profile, PlanOptions("bulk", f=64))
    held = choose_plan(SQUARE, profile, PlanOptions("bulk", f=512, sms=8))
    assert held.share.threads > whole.share.threads
    assert held.share.copiers < whole.share.copiers


@pytest.mark.parametrize("sms", [132, 32, 8, 4])
@pytest.mark.parametrize("f", ["auto", 1, 100, 1000, 4000])
def test_no_other_share_of_the_cpu_is_faster(f, sms):
    options = PlanOptions("bulk", f=f, sms=sms)
    chosen = choose_plan(SQUARE, H200, options)
    for share in H200.cpu.list_shares("pageable"):
        only = replace(H200, cpu=replace(H200.cpu, beside_gpu=(share,)))
        other = choose_plan(SQUARE, only, options)
        assert chosen.predicted.total_seconds <= other.predicted.total_seconds
