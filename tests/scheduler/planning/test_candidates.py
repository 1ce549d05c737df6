"""Which kernels may compute a product: by accuracy, by multiprocessors, by what was measured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import H200
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.candidates import find_candidates
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

PROFILES = st.sampled_from([build_preset_profile(gpu, "test", 16) for gpu in PRESETS])
SIZES = st.integers(1, 20_000)
MEETING = {
    None: {"strict", "library", "float64"},
    "strict": {"strict"},
    "library": {"strict", "library", "float64"},
    "float32": {"strict", "library", "float32"},
    "float64": {"strict", "library", "float64"},
}


def find(dtype="float32", profile=H200, **options):
    return find_candidates(GemmProblem(4096, 4096, 4096, dtype), profile, PlanOptions(**options))


def refuse(dtype="float32", profile=H200, **options):
    with pytest.raises(PlanError) as caught:
        find(dtype, profile, **options)
    assert repr(caught.value.value) in str(caught.value)
    return caught.value


@settings(max_examples=30, deadline=None)
@given(SIZES, SIZES, SIZES, PROFILES, st.sampled_from(["float32", "float64"]), st.data())
def test_the_chosen_kernel_has_the_wanted_accuracy(m, n, k, profile, dtype, data):
    accuracy = data.draw(st.sampled_from([None, "strict", "library", dtype]))
    plan = choose_plan(GemmProblem(m, n, k, dtype), profile, PlanOptions(accuracy=accuracy))
    assert plan.spec is None or plan.spec.accuracy in MEETING[accuracy]
    described = describe_plan(plan)["accuracy"]
    assert described == (plan.spec and plan.spec.accuracy)


def test_a_kernel_is_no_candidate_for_a_k_that_another_computes_for_it():
    for k, chosen in ((127, False), (128, True)):
        problem = GemmProblem(4096, 4096, k)
        found = find_candidates(problem, H200, PlanOptions(accuracy="float32"))
        names = {spec.name for spec in found}
        assert ("tensor" in names) == chosen
        named = find_candidates(problem, H200, PlanOptions(kernel="tensor"))
        assert {spec.name for spec in named} == {"tensor"}


@pytest.mark.parametrize(
    ("dtype", "others"), [("float32", {"bulk"}), ("float64", {"tensor"}), ("bfloat16", {"tensor"})]
)
@pytest.mark.parametrize("sms", [2, 7])
def test_cublas_is_no_candidate_for_fewer_multiprocessors_than_a_partition_has(dtype, others, sms):
    assert {spec.name for spec in find(dtype, sms=sms)} == others
    assert {spec.name for spec in find(dtype, sms=8)} == others | {"cublas"}
    assert refuse(dtype, kernel="cublas", sms=sms).limit == "8…132 with cublas"
    assert refuse("complex64", sms=sms).limit == "8…132 with cublas"


def test_a_product_whose_copies_are_short_is_left_to_cublas_in_one_step():
    for memory, size in (("pinned", 1024), ("pageable", 700)):
        plan = choose_plan(GemmProblem(size, size, size, memory=memory), H200, PlanOptions(f=0))
        assert plan.is_straight
        assert plan.spec.is_cublas
        larger = choose_plan(GemmProblem(4096, 4096, 4096, memory=memory), H200, PlanOptions(f=0))
        assert not larger.is_straight
    strict = PlanOptions(f=0, accuracy="strict")
    assert not choose_plan(GemmProblem(512, 512, 512), H200, strict).is_straight
    limited = PlanOptions(f=0, kernel="cublas", sms=64)
    assert not choose_plan(GemmProblem(512, 512, 512), H200, limited).is_straight
