"""Plans for several GPUs: rows, columns and seconds of each; one GPU where others gain nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import find_preset_profile, join_links, join_profiles
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, choose_plan_on
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import GemmProblem

TWO = find_preset_profile("H100 SXM x2")
EIGHT = find_preset_profile("H100 SXM x8")
LINKED = join_links(TWO, peer_gbytes_per_second=300.0)
UNEQUAL = join_profiles(find_preset_profile("H200"), find_preset_profile("L4"))
BY_TYPE = join_profiles(*map(find_preset_profile, ("H100 SXM", "RTX 4090")))
"""The second is the faster one in float32, and takes 25 times as long in float64."""

MACHINES = {
    "two": LINKED, "three": find_preset_profile("T4 x3"), "unequal": UNEQUAL, "by type": BY_TYPE
}  # fmt: skip
LARGE = GemmProblem(16384, 16384, 16384, memory="pinned")
DEEP = GemmProblem(2048, 2048, 65536, memory="pinned")
ON_GPUS = PlanOptions(f=0)
SIZES = st.integers(1, 20_000)


@settings(max_examples=40, deadline=None)
@given(
    m=SIZES, n=SIZES, k=SIZES, machine=st.sampled_from([*MACHINES]),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    memory=st.sampled_from(["pageable", "pinned"]), f=st.sampled_from(["auto", 0]),
)  # fmt: skip
def test_parts_tile_c_and_more_gpus_are_never_slower(m, n, k, dtype, machine, memory, f):
    profile, problem = MACHINES[machine], GemmProblem(m, n, k, dtype, memory)
    plan = choose_plan(problem, profile, PlanOptions(f=f))
    row = column = 0
    for part in plan.gpu_parts:
        assert (part.rows.start, part.columns.start) == (row, column)
        assert (part.problem.m, part.problem.n) == (len(part.rows), len(part.columns))
        row, column = (row, part.columns.stop) if part.columns.stop < n else (part.rows.stop, 0)
    assert (row, column) == (m - plan.f, 0)
    for device in ("0", "1"):
        alone = choose_plan(problem, profile, PlanOptions(f=f, devices=device))
        assert plan.chosen_seconds <= alone.chosen_seconds
    assert plan.uncorrected.gpu_seconds == max(
        (part.seconds for part in plan.gpu_parts), default=0.0
    )


def test_a_faster_gpu_takes_more_rows_so_that_both_end_together():
    problem = GemmProblem(30_000, 8192, 8192, memory="pinned")
    first, second = choose_plan(problem, UNEQUAL, ON_GPUS).gpu_parts
    assert (first.position, second.position) == (0, 1)
    assert len(first.rows) > 1.5 * len(second.rows)
    assert first.seconds == pytest.approx(second.seconds, rel=0.1)
    swapped = replace(UNEQUAL.beside[0], index=0, beside=(replace(UNEQUAL, index=1, beside=()),))
    assert choose_plan(problem, swapped, PlanOptions(devices="0,1")).gpu_parts[0].position == 1


@pytest.mark.parametrize(
    ("devices", "positions"), [("0", [0]), ("5", [5]), ("2,7", [2, 7]), ("none", [])]
)
def test_only_the_named_gpus_are_used(devices, positions):
    plan = choose_plan(LARGE, EIGHT, PlanOptions(devices=devices))
    assert [part.position for part in plan.gpu_parts] == positions
    reason = None if positions else 'devices is "none", so the CPU computes every row'
    assert (plan.f, plan.no_gpu_reason) == (0 if positions else LARGE.m, reason)


@pytest.mark.parametrize(
    ("problem", "profile", "exchanges"),
    [
        (DEEP, LINKED, True),
        (DEEP, TWO, False),
        (DEEP, join_links(TWO, peer_gbytes_per_second=5.0), False),
        (replace(DEEP, memory="pageable"), LINKED, False),
        (replace(DEEP, b_resident=True), LINKED, False),
        (GemmProblem(256, 256, 256, memory="pinned"), LINKED, False),
        (GemmProblem(64, 16384, 16384, memory="pinned"), LINKED, False),  # one row of tiles
        (DEEP, join_links(UNEQUAL, peer_gbytes_per_second=300.0), False),
    ],
)
def test_equal_gpus_with_fast_links_to_each_other_exchange_a_page_locked_b(
    problem, profile, exchanges
):
    plan = choose_plan_on(problem, profile, ON_GPUS, (0, 1))
    assert plan.exchanges == exchanges == describe_plan(plan)["exchanges_b"]
    if exchanges:
        apart = choose_plan_on(problem, TWO, ON_GPUS, (0, 1))
        assert plan.predicted.total_seconds < 0.75 * apart.predicted.total_seconds
        assert len({part.cut for part in plan.gpu_parts}) == 1


@pytest.mark.parametrize("f", [0, 40])
def test_few_rows_of_a_large_b_are_divided_by_columns(f):
    """Then each GPU fetches its own part of B, and none waits for another."""
    wide = GemmProblem(128, 16_000, 8192, memory="pinned")
    options = PlanOptions(f=f)
    one, two = (choose_plan_on(wide, LINKED, options, gpus) for gpus in ((0,), (0, 1)))
    assert two.divides_columns
    first, second = (part.columns for part in two.gpu_parts)
    assert (first.stop % 128, second) == (0, range(first.stop, 16_000))
    assert [part.rows for part in two.gpu_parts] == [range(128 - f)] * 2
    assert two.predicted.gpu_seconds < 0.6 * one.predicted.gpu_seconds
    assert not choose_plan_on(replace(wide, b_resident=True), TWO, options, (0, 1)).divides_columns
