"""Plans whose bytes cross the links of other GPUs, too."""

from dataclasses import replace

import pytest

from tests.scheduler.profiles import find_preset_profile, join_profiles
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.joint import JointLinks
from wavetrim.scheduler.profile.machine import MachineProfile

TWO = replace(find_preset_profile("H100 SXM x2"), peer_gbytes_per_second=250.0)
FOUR = replace(find_preset_profile("H100 SXM x4"), peer_gbytes_per_second=250.0)
BOUND = GemmProblem(16384, 16384, 256, memory="pinned")


def plan_on(devices: str, problem: GemmProblem = BOUND, profile: MachineProfile = TWO, **asked):
    return choose_plan(problem, profile, PlanOptions(devices=devices, **asked))


def test_a_product_bound_by_its_link_takes_half_the_time_with_a_relay() -> None:
    alone, relayed = plan_on("0", f=0), plan_on("0+1", f=0)
    assert relayed.relays == (1,)
    assert [part.position for part in relayed.gpu_parts] == [0]
    assert relayed.lane == {0}
    ratio = alone.predicted.total_seconds / relayed.predicted.total_seconds
    assert 1.7 < ratio < 2
    assert relayed.gpu_only_seconds == alone.gpu_only_seconds
    described = describe_plan(relayed)
    assert described["relays"] == ["cuda:1"]
    assert [one["device"] for one in described["devices"]] == ["cuda:0"]
    rates = [
        describe_plan(one)["profile"]["link"]["in_gbytes_per_second"] for one in (alone, relayed)
    ]
    assert rates[1] == pytest.approx(2 * 0.96 * rates[0])


def test_the_first_gpu_that_is_named_computes() -> None:
    plan = plan_on("1+0")
    assert plan.relays == (0,)
    assert [part.position for part in plan.gpu_parts] == [1]


@pytest.mark.parametrize("devices", ["0+1", "1+0"])
def test_the_joint_rates_are_those_of_the_machine(devices: str) -> None:
    memory = JointLinks("pinned", 2, 80.0, 85.0, 90.0, "measured")
    plan = plan_on(devices, profile=replace(TWO, joint=(memory,)), f=0)
    link = describe_plan(plan)["profile"]["link"]
    assert (link["in_gbytes_per_second"], link["out_gbytes_per_second"]) == (80.0, 85.0)
    assert link["source"].startswith("measured")


def test_more_relays_are_faster_as_long_as_host_memory_is() -> None:
    seconds = [
        plan_on(devices, profile=FOUR, f=0).predicted.total_seconds
        for devices in ("0", "0+1", "0+1+2")
    ]
    assert seconds == sorted(seconds, reverse=True)
    memory = JointLinks("pinned", 2, 56.0, 56.0, 60.0, "measured")
    assert plan_on("0+1", profile=replace(TWO, joint=(memory,))).relays == ()


@pytest.mark.parametrize(
    "problem",
    [
        GemmProblem(16384, 16384, 16384, memory="pinned"),  # bound by its kernel
        GemmProblem(512, 512, 512, memory="pinned"),
        replace(BOUND, memory="pageable"),
        GemmProblem(64, 64, 64, memory="pinned"),  # the CPU's
    ],
)
def test_no_relay_is_used_where_it_gains_little(problem: GemmProblem) -> None:
    plan = plan_on("0+1", problem)
    assert plan.relays == ()
    assert describe_plan(plan) == describe_plan(plan_on("0", problem))


def test_no_relay_is_used_where_copies_between_gpus_were_not_measured() -> None:
    assert plan_on("0+1", profile=replace(TWO, peer_gbytes_per_second=0.0)).relays == ()


def test_a_slow_link_takes_an_equal_part() -> None:
    slow = join_profiles(TWO, find_preset_profile("T4"))
    assert plan_on("0+1", profile=replace(slow, peer_gbytes_per_second=250.0)).relays == ()


@pytest.mark.parametrize(
    ("devices", "limit"), [("0+0", "the index of each GPU once"), ("0+7", "indices among 0, 1")]
)
def test_relays_are_other_gpus_that_are_there(devices: str, limit: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan_on(devices)
    assert refused.value.field == "devices"
    assert refused.value.value == devices
    assert limit in str(refused.value)


def test_runs_with_relays_are_learnt_apart() -> None:
    alone, relayed = plan_on("0", f=0), plan_on("0+1", f=0)
    (one,), (two,) = alone.corrections, relayed.corrections
    assert one.run_class.is_in_team is False
    assert two.run_class.is_in_team is True
    assert relayed.is_current


def test_a_product_with_one_row_of_tiles_is_not_exchanged() -> None:
    """A GPU without rows of C fetches no part of B for another."""
    plan = choose_plan(GemmProblem(64, 16384, 16384, memory="pinned"), TWO, PlanOptions(f=0))
    assert plan.divides_columns
    assert not plan.exchanges
