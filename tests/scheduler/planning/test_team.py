"""Plans for several GPUs: rows, seconds and waves of each; one GPU where others gain nothing."""

import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limit import allow_python
from tests.scheduler.profiles import change_rates, find_preset_profile, join_profiles, make_links
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.curve_points import describe_curve
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.planning.team import TeamCurve, find_next_count, list_members
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.joint import JointLinks
from wavetrim.scheduler.profile.machine import MachineProfile

ONE = find_preset_profile("H100 SXM")
TWO = find_preset_profile("H100 SXM x2")
EIGHT = find_preset_profile("H100 SXM x8")
UNEQUAL = join_profiles(find_preset_profile("H200"), find_preset_profile("L4"))
MACHINES = {"two": TWO, "three": find_preset_profile("T4 x3"), "unequal": UNEQUAL}
LARGE = GemmProblem(16384, 16384, 16384, memory="pinned")


def plan_rows(plan):
    return [part.rows for part in plan.gpu_parts]


def test_two_gpus_take_half_of_a_large_product_each():
    one, two = choose_plan(LARGE, ONE), choose_plan(LARGE, TWO)
    assert plan_rows(two) == [range(8192), range(8192, 16384)]
    assert two.predicted.total_seconds < 0.55 * one.predicted.total_seconds
    assert two.gpu_only_seconds == one.gpu_only_seconds
    assert describe_plan(two)["speedup_over_gpu"] > 1.8


@pytest.mark.parametrize("side", [1, 64, 256, 512])
@pytest.mark.parametrize("memory", ["pageable", "pinned"])
def test_a_small_product_uses_one_gpu(side, memory):
    problem = GemmProblem(side, side, side, memory=memory)
    one, eight = choose_plan(problem, ONE), choose_plan(problem, EIGHT)
    assert describe_plan(eight)["devices"] == describe_plan(one)["devices"]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 20_000),
    st.sampled_from([*MACHINES]), st.sampled_from(["pageable", "pinned"]),
)  # fmt: skip
def test_a_team_computes_every_row_once_and_is_never_slower_than_one_gpu(m, n, k, machine, memory):
    profile = MACHINES[machine]
    problem = GemmProblem(m, n, k, memory=memory)
    plan = choose_plan(problem, profile)
    parts = plan.gpu_parts
    ways = [part.columns if plan.divides_columns else part.rows for part in parts]
    ends = [end for way in ways for end in (way.start, way.stop)]
    assert ends == sorted(ends)
    assert sum(len(part.rows) * len(part.columns) for part in parts) == (m - plan.f) * n
    alone = choose_plan(problem, profile, PlanOptions(devices="0"))
    assert len(alone.gpu_parts) <= 1
    assert plan.predicted.total_seconds <= alone.predicted.total_seconds
    assert plan.predicted.gpu_seconds == max((p.seconds for p in plan.gpu_parts), default=0.0)


@pytest.mark.parametrize("profile", [TWO, EIGHT], ids=["two", "eight"])
def test_a_plan_for_several_gpus_takes_milliseconds(profile):
    def plan(m, n):
        start = time.thread_time()
        choose_plan(GemmProblem(m, n, 2053, memory="pinned"), profile)
        return time.thread_time() - start

    plan(777, 3000)  # what a process keeps for all plans
    # Of each shape the best of five new ones: a thread on the same core takes half of its speed.
    shapes = (10**6, 8192, 16384, 4224, 65536, 1000, 100_003)
    seconds = [min(plan(m, n) for n in range(4099, 4104)) for m in shapes]
    assert median(seconds) < allow_python(15e-3)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 8), st.floats(0.0, 10.0), st.floats(1e-3, 1.0))
def test_the_fastest_number_of_gpus_is_found(most, fixed, each):
    """Of times with a part that all GPUs share, a fixed part, and a part for each GPU."""
    times = {count: 10.0 / count + fixed + each * count for count in range(1, most + 1)}
    found, tried = 1, {1: times[1]}
    while (count := find_next_count(tried, found, most)) is not None:
        assert count not in tried
        assert 1 < count <= most
        tried[count] = times[count]
        found = count if times[count] < times[found] else found
    assert times[found] <= 1.02 * min(times.values())
    assert len(tried) <= 7


def join_links(rates):
    """Eight GPUs whose links together have these rates, in GB/s, by the number of GPUs."""
    joint = [
        JointLinks("pinned", gpus, rate, rate, 2 * rate, "measured", call_seconds=0.0)
        for gpus, rate in rates.items()
    ]
    return replace(EIGHT, joint=tuple(joint))


@pytest.mark.parametrize("best", [3, 5, 6])
def test_no_more_gpus_are_used_than_are_fastest(best):
    """Also if twice as many gain, too."""
    thin = GemmProblem(65536, 16384, 512, memory="pinned")
    rates = {gpus: 50.0 * (gpus if gpus <= best else 0.8 * best) for gpus in range(2, 9)}
    assert len(choose_plan(thin, join_links(rates), PlanOptions(f=0)).gpu_parts) == best


@pytest.mark.parametrize(("faster", "gpus"), [(1.08, 2), (1.2, 4)])
def test_each_further_gpu_must_gain(faster, gpus):
    thin = GemmProblem(65536, 16384, 512, memory="pinned")
    machine = join_links({2: 100.0, 3: 100.0, 4: faster * 100.0})
    options = PlanOptions(f=0, devices="0,1,2,3")
    assert len(choose_plan(thin, machine, options).gpu_parts) == gpus


def test_four_gpus_are_tried_where_two_gain_nothing_over_one_beside_the_cpu():
    """Beside several GPUs memory leaves the CPU no rows."""
    thin = GemmProblem(16384, 16384, 64, memory="pinned")
    joint = [
        JointLinks("pinned", gpus, rate, rate, 1.4 * rate, "measured", split_stretch=3.0)
        for gpus, rate in ((2, 70.0), (3, 140.0), (4, 150.0))
    ]
    machine = replace(change_rates(EIGHT, gflops=5000), joint=tuple(joint))
    plans = {
        devices: choose_plan(thin, machine, PlanOptions(devices=devices))
        for devices in ("0,1", "0,1,2,3")
    }
    assert len(plans["0,1"].gpu_parts) == 1
    assert plans["0,1"].f > 0
    assert len(plans["0,1,2,3"].gpu_parts) > 2


def test_a_faster_gpu_takes_more_rows_so_that_both_end_together():
    problem = GemmProblem(30_000, 8192, 8192, memory="pinned")
    plan = choose_plan(problem, UNEQUAL, PlanOptions(f=0))
    first, second = plan.gpu_parts
    assert (first.position, second.position) == (0, 1)
    assert len(first.rows) > 1.5 * len(second.rows)
    assert first.seconds == pytest.approx(second.seconds, rel=0.1)
    swapped = replace(UNEQUAL.beside[0], index=0, beside=(replace(UNEQUAL, index=1, beside=()),))
    assert choose_plan(problem, swapped, PlanOptions(devices="0,1")).gpu_parts[0].position == 1


def test_the_cpu_keeps_the_last_rows_beside_several_gpus():
    plan = choose_plan(LARGE, change_rates(TWO, gflops=20_000))
    assert plan.f > 0
    assert len(plan.gpu_parts) == 2
    assert plan.gpu_parts[-1].rows.stop == LARGE.m - plan.f
    devices = describe_plan(plan)["devices"]
    assert [one["device"] for one in devices] == ["cuda:0", "cuda:1", "cpu"]
    assert sum(one["rows"] for one in devices) == LARGE.m
    assert sum(one["waves"] or 0 for one in devices) == plan.waves
    assert describe_curve(plan)[-1]["f"] == LARGE.m


def test_a_second_gpu_on_a_shared_slow_link_stays_unused():
    thin = GemmProblem(16384, 16384, 256, memory="pinned")
    fast = choose_plan(thin, TWO)
    assert len(fast.gpu_parts) == 2
    link = TWO.find_link("pinned")
    rate = link.in_gbytes_per_second
    joint = JointLinks("pinned", 2, rate, rate, rate, "measured")
    slow = choose_plan(thin, replace(TWO, joint=(joint,)))
    assert len(slow.gpu_parts) == 1


def test_a_split_that_memory_bounds_gets_fewer_rows_beside_several_gpus():
    thin = GemmProblem(16384, 8192, 1, memory="pinned")
    joint = JointLinks("pinned", 2, 100.0, 100.0, 140.0, "measured")
    before, after = (
        choose_plan(thin, replace(TWO, joint=(replace(joint, split_stretch=stretch),)))
        for stretch in (1.0, 1.3)
    )
    assert after.f < before.f
    assert after.predicted.total_seconds > before.predicted.total_seconds
    assert choose_plan(thin, ONE).f > 0


def test_only_the_named_gpus_are_used():
    positions = {
        devices: [part.position for part in choose_plan(LARGE, EIGHT, options).gpu_parts]
        for devices in ("0", "5", "2,7", "none")
        if (options := PlanOptions(devices=devices))
    }
    assert positions == {"0": [0], "5": [5], "2,7": [2, 7], "none": []}
    without = choose_plan(LARGE, EIGHT, PlanOptions(devices="none"))
    assert (without.f, without.no_gpu_reason) == (
        LARGE.m,
        'devices is "none", so the CPU computes every row',
    )


@pytest.mark.parametrize(
    ("profile", "devices", "limit"),
    [
        (TWO, "2", '"none", or indices among 0, 1'),
        (find_preset_profile("cpu"), "0", '"none": there is no GPU'),
        (TWO, "first", '"none", or indices such as "0,1"'),
        (TWO, "0+1", '"none", or indices such as "0,1"'),
    ],
)
def test_a_gpu_that_is_not_there_is_refused(profile, devices, limit):
    with pytest.raises(PlanError) as refusal:
        choose_plan(LARGE, profile, PlanOptions(devices=devices))
    assert (refusal.value.field, refusal.value.value) == ("devices", devices)
    assert refusal.value.limit == limit


def test_runs_of_several_gpus_have_classes_of_their_own():
    def classes(profile, **options):
        plan = choose_plan(LARGE, profile, PlanOptions(**options))
        return {one.run_class for one in plan.corrections}

    assert not classes(ONE) & classes(TWO)
    assert classes(TWO, devices="1") == classes(ONE)
    assert {one.device for one in classes(UNEQUAL, f=0)} == {
        "H200 of 2 gpus, gpu from pinned memory", "L4 of 2 gpus, gpu from pinned memory",
    }  # fmt: skip


def test_a_profile_of_several_gpus_is_read_as_it_was_written():
    links = make_links(10.0, 10.0)
    joint = JointLinks("pinned", 2, 15.0, 15.0, 20.0, "measured")
    profile = replace(UNEQUAL, links=links, joint=(joint,), peer_gbytes_per_second=300.0)
    assert MachineProfile.from_dict(profile.as_dict()) == profile
    older = ONE.as_dict()
    for name in ("index", "beside", "joint", "peer_gbytes_per_second"):
        del older[name]
    assert MachineProfile.from_dict(older) == ONE


def test_equal_gpus_divide_rows_in_whole_tiles():
    tall = GemmProblem(65_536, 4096, 4096, memory="pinned")
    curve = choose_plan_on(tall, EIGHT, PlanOptions(), range(8)).gpu_alone_curve
    assert isinstance(curve, TeamCurve)
    tile = list_members(curve)[0].problem.tile_m
    for rows in (1, tile, 9999, 65_536):
        shares = curve.divide(rows)
        assert sum(shares) == rows
        assert all(
            share % tile == 0 for share in shares if share not in (0, shares[-1], rows % tile)
        )
        assert curve.seconds(rows) == max(
            member.seconds(share) for member, share in zip(curve.members, shares, strict=True)
        )


def test_gpus_with_fast_links_to_each_other_exchange_b():
    deep = GemmProblem(2048, 2048, 65536, memory="pinned")
    linked = replace(TWO, peer_gbytes_per_second=300.0)
    plans = {
        name: choose_plan_on(problem, profile, PlanOptions(f=0), (0, 1))
        for name, problem, profile in (
            ("apart", deep, TWO),
            ("exchanged", deep, linked),
            ("slow peers", deep, replace(TWO, peer_gbytes_per_second=5.0)),
            ("pageable", replace(deep, memory="pageable"), linked),
            ("small", replace(deep, m=256, n=256, k=256), linked),
            ("unequal", deep, replace(UNEQUAL, peer_gbytes_per_second=300.0)),
        )
    }
    assert [name for name, plan in plans.items() if plan.exchanges] == ["exchanged"]
    apart, exchanged = (plans[name].predicted.total_seconds for name in ("apart", "exchanged"))
    assert exchanged < 0.75 * apart
    assert describe_plan(plans["exchanged"])["exchanges_b"] is True


def test_a_product_with_one_row_of_tiles_is_not_exchanged():
    """A GPU without rows of C fetches no part of B for another."""
    linked = replace(TWO, peer_gbytes_per_second=250.0)
    plan = choose_plan(GemmProblem(64, 16384, 16384, memory="pinned"), linked, PlanOptions(f=0))
    assert plan.divides_columns
    assert not plan.exchanges


def test_kernels_that_take_no_time_are_planned_on_unequal_gpus():
    """As a damaged profile may have them; a team's kernels are as if rows were divided by rates."""
    no_time = {"launch_seconds": 0.0, "wave_seconds": 0.0, "wave_k_seconds": 0.0}
    first, second = (
        replace(one, kernels=tuple(replace(kernel, **no_time) for kernel in one.kernels))
        for one in (UNEQUAL, *UNEQUAL.beside)
    )
    profile = replace(first, beside=(second,))
    plan = choose_plan_on(GemmProblem(3000, 3000, 3000), profile, PlanOptions(f=0), (0, 1))
    assert sum(plan.gpu_shares) == 3000


def test_enqueuing_an_exchange_takes_longer_for_each_further_gpu():
    """One thread enqueues for all, and each GPU waits for each other one and copies from it."""
    deep = GemmProblem(8192, 2048, 65536, memory="pinned")
    linked = replace(EIGHT, peer_gbytes_per_second=300.0)
    seconds = []
    for count in (2, 3, 4, 8):
        plan = choose_plan_on(deep, linked, PlanOptions(f=0), range(count))
        assert plan.exchanges
        seconds.append(plan.gpu_parts[0].curve.rates.enqueue_seconds / count)
    assert seconds == sorted(set(seconds))
    link = ONE.find_link("pinned")
    # Of two, each records its own piece, awaits and copies the other, records and awaits both: 5.
    assert seconds[0] == pytest.approx((9 + 2 * 5) / 9 * link.step_seconds)


@pytest.mark.parametrize("f", [0, 40])
def test_few_rows_of_a_large_b_are_divided_by_columns(f):
    """Then each GPU fetches its own part of B, and none waits for another."""
    wide = GemmProblem(128, 8192, 8192, memory="pinned")
    options = PlanOptions(f=f)
    one = choose_plan_on(wide, TWO, options, (0,))
    two = choose_plan_on(wide, replace(TWO, peer_gbytes_per_second=300.0), options, (0, 1))
    assert two.divides_columns
    assert [part.columns for part in two.gpu_parts] == [range(4096), range(4096, 8192)]
    assert plan_rows(two) == [range(128 - f)] * 2
    assert two.predicted.gpu_seconds < 0.6 * one.predicted.gpu_seconds
    described = describe_plan(two)["devices"]
    assert [(one["rows"], one["columns"]) for one in described[:2]] == [(128 - f, 4096)] * 2
    assert not choose_plan_on(replace(wide, b_resident=True), TWO, options, (0, 1)).divides_columns


@pytest.mark.parametrize("f", ["auto", 0, 100])
def test_a_kernel_that_only_one_gpu_runs_is_used_there(f):
    mixed = join_profiles(find_preset_profile("H200"), find_preset_profile("T4"))
    plan = choose_plan(GemmProblem(4096, 4096, 4096), mixed, PlanOptions("bulk", f=f))
    assert [part.position for part in plan.gpu_parts] == [0]
    assert plan.spec.name == "bulk"


def test_the_curve_of_divided_columns_has_every_wave():
    plan = choose_plan_on(GemmProblem(1000, 16384, 8192), TWO, PlanOptions("cublas"), (0, 1))
    assert plan.divides_columns
    drawn = {point["f"] for point in describe_curve(plan)}
    grid = plan.gpu_parts[0].curve.grid
    assert {1000 - grid.rows_in_waves(n) for n in range(1, grid.count_waves(1000))} <= drawn


def test_columns_are_divided_in_whole_tiles():
    plan = choose_plan_on(
        GemmProblem(64, 4000, 60_000, memory="pinned"), EIGHT, PlanOptions("cublas", f=0), range(8)
    )
    columns = [part.columns for part in plan.gpu_parts]
    assert plan.divides_columns
    assert [columns[0].start, columns[-1].stop] == [0, 4000]
    assert all(one.stop == two.start for one, two in pairwise(columns))
    assert all(len(one) % plan.spec.tile.n == 0 for one in columns[:-1])


@pytest.mark.parametrize("names", [("H100 SXM", "RTX 4090"), ("A100 SXM 80", "L4")])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_of_gpus_that_differ_none_is_faster_alone_than_the_plan(names, dtype, memory):
    """By float32 the second ones are faster, in float64 they take 25 times as long."""
    machine = join_profiles(*map(find_preset_profile, names))
    problem = GemmProblem(8192, 8192, 8192, dtype, memory)
    plan = choose_plan(problem, machine)
    for device in ("0", "1"):
        alone = choose_plan(problem, machine, PlanOptions(devices=device))
        assert plan.predicted.total_seconds <= alone.predicted.total_seconds
        assert describe_plan(alone)["profile"]["device"] == machine.gpus[int(device)].device


def test_of_gpus_that_differ_one_without_the_kernel_has_no_rows():
    machine = join_profiles(find_preset_profile("RTX 4090"), find_preset_profile("H200"))
    plan = choose_plan(LARGE, machine, PlanOptions("bulk", f=0))
    assert [part.position for part in plan.gpu_parts] == [1]
    with pytest.raises(PlanError, match="bulk"):
        choose_plan(LARGE, machine, PlanOptions("bulk", f=0, devices="0"))


def test_gpus_of_one_model_take_equal_rows_despite_measured_differences():
    def vary(profile, factor):
        kernels = [
            replace(one, wave_k_seconds=factor * one.wave_k_seconds) for one in profile.kernels
        ]
        return replace(profile, kernels=tuple(kernels))

    measured = replace(TWO, beside=(vary(TWO.beside[0], 1.03),))
    plan = choose_plan(LARGE, measured)
    assert plan_rows(plan) == [range(8192), range(8192, 16384)]
    assert plan.predicted.total_seconds == plan.gpu_parts[1].seconds > plan.gpu_parts[0].seconds
