"""B is fetched once products would have saved its cost, and plans use a resident B."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import SPLIT_GAIN, choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.drawing import describe_schedule
from wavetrim.scheduler.planning.residency import Savings, find_fetch_seconds
from wavetrim.scheduler.problem import GemmProblem

ONE = find_preset_profile("H100 SXM")
THIN = GemmProblem(64, 8192, 8192, memory="pinned")
LARGE = GemmProblem(16384, 16384, 16384, memory="pinned")


def plan_both(problem, profile=ONE):
    return choose_plan(problem, profile), choose_plan(replace(problem, b_resident=True), profile)


def count_uses(problem, *, most=100):
    """The number of products until B is fetched."""
    residency, (plain, resident) = Savings(), plan_both(problem)
    uses = (residency.decide("b", plain, resident, missing=[0]) for _ in range(most))
    return next(number for number, fetched in enumerate(uses, 1) if fetched)


def test_a_thin_product_takes_a_quarter_of_its_time_with_a_resident_b():
    plain, resident = plan_both(THIN)
    assert resident.predicted.total_seconds < plain.predicted.total_seconds / 4
    assert resident.f == 0
    assert describe_plan(resident)["resident"] is True
    assert describe_plan(plain)["resident"] is False
    copies_in, *_ = describe_schedule(resident)
    copied = sum(span["end_seconds"] - span["begin_seconds"] for span in copies_in["spans"])
    assert copied < 1.5 * THIN.m * THIN.a_row_bytes / (55e9)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 9000),
    st.sampled_from(["pageable", "pinned"]), st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_no_plan_is_slower_with_a_resident_b(m, n, k, memory, dtype):
    plain, resident = plan_both(GemmProblem(m, n, k, dtype, memory))
    assume(not plain.is_straight)
    slower = resident.chosen_seconds / plain.chosen_seconds
    assert slower * (1 - SPLIT_GAIN[memory]) < 1.02, "a split is taken only for a gain"


def test_b_is_fetched_once_products_would_have_saved_its_cost():
    assert count_uses(THIN) == 2
    plain, resident = plan_both(LARGE)
    saved = plain.predicted.total_seconds - resident.predicted.total_seconds
    assert 0 < saved < find_fetch_seconds(plain, 0) / 3
    assert count_uses(LARGE) == -(-find_fetch_seconds(plain, 0) // saved)


def test_a_resident_b_is_used_at_once_and_an_evicted_one_earns_its_place_anew():
    residency, (plain, resident) = Savings(), plan_both(THIN)
    assert residency.decide("b", plain, resident, missing=[])
    for _ in range(2):
        assert not residency.decide("b", plain, resident, missing=[0])
        assert residency.decide("b", plain, resident, missing=[0])


def test_a_b_too_large_to_be_resident_is_refused_with_the_limit():
    problem = GemmProblem(64, 200_000, 200_000, b_resident=True)
    with pytest.raises(PlanError, match=r"resident is True; it must be false: B has 160000000000 "):
        choose_plan(problem, ONE)
    assert choose_plan(problem, ONE, PlanOptions(devices="none")).f == 64
