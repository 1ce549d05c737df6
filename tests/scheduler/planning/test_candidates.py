"""Which kernels may compute a product: by accuracy, by multiprocessors, by what was measured."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matrices import FLOATS
from tests.scheduler.profiles import H200, find_preset_profile, make_links
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.candidates import find_candidates
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.ranking import rank_kernels
from wavetrim.scheduler.planning.split import find_split_gain
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import KernelModel
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

CPU_ONLY = find_preset_profile("cpu", cpu_threads=8)
T4 = find_preset_profile("T4", cpu_threads=8)
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
    return find_candidates(GemmProblem(512, 512, 512, dtype), profile, PlanOptions(**options))


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


@pytest.mark.parametrize("accuracy", [None, "strict", "library", "float32"])
def test_every_kernel_of_sufficient_accuracy_is_a_candidate(accuracy):
    found = {candidate.spec for candidate in find(accuracy=accuracy)}
    ours = [spec for spec in list_kernels(dtype="float32") if spec.automatic]
    wanted = {spec for spec in ours if spec.accuracy in MEETING[accuracy]}
    assert found == wanted


def test_tensor_cores_compute_float32_only_at_accuracy_float32():
    problem = GemmProblem(8192, 8192, 8192)
    chosen = {
        accuracy: choose_plan(problem, H200, PlanOptions(accuracy=accuracy, f=0)).spec.name
        for accuracy in ("strict", "library", "float32")
    }
    assert chosen == {"strict": "bulk", "library": "bulk", "float32": "tensor"}


def test_a_kernel_is_no_candidate_for_a_k_that_another_computes_for_it():
    for k, chosen in ((127, False), (128, True)):
        problem = GemmProblem(4096, 4096, k)
        names = {
            c.spec.name for c in find_candidates(problem, H200, PlanOptions(accuracy="float32"))
        }
        assert ("tensor" in names) == chosen
        named = find_candidates(problem, H200, PlanOptions(kernel="tensor"))
        assert {candidate.spec.name for candidate in named} == {"tensor"}


def test_a_gpu_without_a_kernel_of_the_accuracy_uses_a_more_exact_one():
    plan = choose_plan(GemmProblem(8192, 8192, 8192), T4, PlanOptions(accuracy="float32", f=0))
    assert plan.spec.accuracy in ("strict", "library")


@pytest.mark.parametrize(
    ("dtype", "accuracy", "choices"),
    [
        ("float64", "float32", "strict, library, float64"),
        ("float32", "float64", "strict, library, float32"),
        ("float16", "float32", "strict, library"),
        ("int64", "float64", "strict, library"),
    ],
)
def test_an_accuracy_of_another_type_is_refused(dtype, accuracy, choices):
    error = refuse(dtype, accuracy=accuracy)
    assert (error.field, error.value) == ("accuracy", accuracy)
    assert error.limit.startswith(f"one of {choices} for a product in {dtype}")


@pytest.mark.parametrize(("dtype", "name"), [("float32", "good"), ("float16", "float16")])
def test_an_unknown_accuracy_is_refused_with_the_known_ones(dtype, name):
    error = refuse(dtype, accuracy=name)
    assert (error.field, error.limit) == ("accuracy", "one of strict, library, float32, float64")


@pytest.mark.parametrize(
    ("kernel", "dtype", "accuracy"),
    [
        ("cublas", "float32", "strict"),
        ("tensor", "float32", "strict"),
        ("tensor", "float64", "strict"),
        ("tensor", "float32", "library"),
    ],
)
def test_a_named_kernel_that_is_less_exact_is_refused(kernel, dtype, accuracy):
    error = refuse(dtype, kernel=kernel, accuracy=accuracy)
    assert (error.field, error.value) == ("kernel", kernel)
    assert f"of accuracy {accuracy} in {dtype}: " in error.limit
    assert "register" in error.limit
    assert kernel not in error.limit.split(", ")


@pytest.mark.parametrize("kernel", ["simple", "register", "bulk", "tensor", "cublas"])
def test_a_named_kernel_may_have_any_accuracy(kernel):
    assert {candidate.spec.name for candidate in find(kernel=kernel)} == {kernel}


def test_the_cpu_computes_what_no_kernel_computes_exactly_enough():
    problem = GemmProblem(100, 100, 100, "float16")
    plan = choose_plan(problem, H200, PlanOptions(accuracy="strict"))
    reason = (
        "no kernel of accuracy strict multiplies float16 on H200, so the CPU computes every row"
    )
    assert (plan.f, plan.no_gpu_reason) == (100, reason)
    described = describe_plan(plan)
    assert (described["accuracy"], described["no_gpu_reason"]) == (None, reason)
    with pytest.raises(PlanError, match=reason):
        choose_plan(problem, H200, PlanOptions(accuracy="strict", f=0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sms", [8, 66, 132])
def test_only_persistent_kernels_are_held_to_some_multiprocessors(dtype, sms):
    found = find(dtype, sms=sms)
    assert found
    assert all(candidate.spec.persistent for candidate in found)


@pytest.mark.parametrize(
    ("dtype", "others"),
    [("float32", {"bulk"}), ("float64", {"tensor"}), ("bfloat16", {"tensor"})],
)
@pytest.mark.parametrize("sms", [1, 7])
def test_cublas_is_no_candidate_for_fewer_multiprocessors_than_a_partition_has(dtype, others, sms):
    assert {candidate.spec.name for candidate in find(dtype, sms=sms)} == others
    assert {candidate.spec.name for candidate in find(dtype, sms=8)} == others | {"cublas"}
    assert refuse(dtype, kernel="cublas", sms=sms).limit == "8…132 with cublas"
    assert refuse("complex64", sms=sms).limit == "8…132 with cublas"


def test_a_kernel_that_plans_do_not_choose_can_be_named():
    assert "shared" not in {candidate.spec.name for candidate in find()}
    assert {candidate.spec.name for candidate in find(kernel="shared")} == {"shared"}


def test_cublas_has_slots_on_whole_partitions_only():
    problem = GemmProblem(8192, 8192, 4096)
    slots = {
        sms: choose_plan(problem, H200, PlanOptions("cublas", f=0, sms=sms)).gpu_curve.grid.slots
        for sms in (8, 13, 15, 16, 131, 132)
    }
    assert slots == {8: 8, 13: 8, 15: 8, 16: 16, 131: 128, 132: 132}


def test_kernel_time_is_inverse_to_the_multiprocessors():
    problem = GemmProblem(132 * 128, 256 * 16, 4096)
    whole = choose_plan(problem, H200, PlanOptions("bulk", "128x256", f=0))
    for sms in (1, 11, 66, 132):
        held = choose_plan(problem, H200, PlanOptions("bulk", "128x256", f=0, sms=sms))
        assert held.gpu_curve.grid.slots == sms
        waves = held.gpu_curve.wave_seconds * held.waves
        assert waves == pytest.approx(whole.gpu_curve.wave_seconds * whole.waves * 132 / sms)
        assert describe_plan(held)["sms"] == sms
    assert describe_plan(whole)["sms"] is None


def test_the_cpu_takes_more_rows_from_a_gpu_that_is_held_back():
    problem = GemmProblem(16384, 16384, 1024)
    rows = [choose_plan(problem, H200, PlanOptions(sms=sms)).f for sms in (1, 8, 132)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > rows[2]


def test_limits_of_multiprocessors_out_of_range_are_refused():
    for sms in (0, -1, 133):
        error = refuse(sms=sms)
        assert (error.field, error.value, error.limit) == (
            "sms", sms, "1…132, the multiprocessors of H200",
        )  # fmt: skip
    assert refuse(profile=T4, sms=41).limit.startswith("1…40")
    assert refuse(profile=CPU_ONLY, sms=1).limit == "left out: there is no GPU"
    assert "no kernel multiplies int64" in refuse("int64", sms=1).limit


def test_a_kernel_that_is_not_persistent_takes_no_limit_of_multiprocessors():
    error = refuse(kernel="register", sms=66)
    limit = "left out with register; bulk, cublas, tensor can be held to some multiprocessors"
    assert (error.field, error.value, error.limit) == ("sms", 66, limit)


def with_rates(**gflops):
    """A profile with measured staircases of these kernels, all of the same tile and slots."""
    tiles = {"bulk": "128x256x16", "cublas": "128x256x8"}
    models = tuple(
        KernelModel(
            name, "float32", tiles[name], 132, 5e-6, 0.0, 2 * 128 * 256 * 132 / rate / 1e9, "test"
        )
        for name, rate in gflops.items()
    )
    return replace(H200, kernels=models)


@pytest.mark.parametrize(
    ("bulk", "cublas", "winner"),
    [
        (53_000, 51_000, "bulk"),
        (51_001, 51_000, "bulk"),
        (50_800, 51_000, "cublas"),
        (50_000, 51_000, "cublas"),
    ],
)
def test_our_own_kernel_is_chosen_only_where_it_is_faster(bulk, cublas, winner):
    # Whole waves, so there is no tail to gain from, and enough of them for the last copies to count
    # for little.
    problem = GemmProblem(4 * 132 * 128, 256 * 64, 4096, memory="pinned")
    for profile in (with_rates(bulk=bulk, cublas=cublas), with_rates(cublas=cublas, bulk=bulk)):
        assert choose_plan(problem, profile, PlanOptions(f=0)).spec.name == winner
        slow = replace(profile, links=make_links(0.1))
        assert choose_plan(problem, slow, PlanOptions(f=0)).spec.name == winner


def test_the_library_comes_first_among_equally_fast_kernels():
    problem = GemmProblem(4 * 132 * 128, 256 * 64, 4096, memory="pinned")
    for profile in (
        with_rates(bulk=51_000, cublas=51_000),
        with_rates(cublas=51_000, bulk=51_000),
    ):
        candidates = find_candidates(problem, profile, PlanOptions())
        assert rank_kernels(problem, profile, candidates, None)[0].spec.name == "cublas"


def test_a_split_tail_can_make_a_slower_kernel_the_faster_one():
    profile = with_rates(bulk=50_000, cublas=51_000)
    tail_heavy = GemmProblem(4224, 4224, 4224)
    assert choose_plan(tail_heavy, profile, PlanOptions(f=0)).spec.name == "bulk"


def test_an_assumed_rate_does_not_outrank_a_measured_one():
    measured = with_rates(cublas=40_000).kernels
    profile = replace(H200, kernels=(*measured, *(m for m in H200.kernels if m.kernel == "bulk")))
    problem = GemmProblem(8192, 8192, 8192)
    assert choose_plan(problem, profile, PlanOptions(f=0)).spec.name == "cublas"
    assert choose_plan(problem, profile, PlanOptions("bulk", f=0)).spec.name == "bulk"
    assert choose_plan(problem, profile, PlanOptions(accuracy="strict", f=0)).spec.name == "bulk"


@pytest.mark.parametrize("shape", [(8192, 128, 8192), (8192, 8192, 8192), (333, 4099, 1021)])
def test_the_tile_is_chosen_by_the_wave_model(shape):
    problem = GemmProblem(*shape)
    seconds = {
        str(candidate.spec.tile): choose_plan(
            problem, H200, PlanOptions("bulk", str(candidate.spec.tile), f=0)
        ).gpu_curve.kernel_seconds(problem.m)
        for candidate in find(kernel="bulk")
    }
    chosen = choose_plan(problem, H200, PlanOptions("bulk", f=0))
    assert len(seconds) > 1
    assert chosen.gpu_curve.kernel_seconds(problem.m) == min(seconds.values())


def test_narrow_products_get_narrow_tiles():
    tiles = [
        choose_plan(GemmProblem(8192, n, 8192), H200, PlanOptions("bulk", f=0)).spec.tile.n
        for n in (128, 8192)
    ]
    assert tiles == [128, 256]


@pytest.mark.parametrize(
    ("device", "shape"),
    [
        ("A100 SXM 80", (2113, 3457, 3383)),
        ("A10", (4098, 650, 360)),
        ("T4 x2", (2783, 2616, 2066)),
    ],
)
def test_a_kernel_that_short_launches_make_the_faster_one_is_considered(device, shape):
    """In one launch two other kernels are faster than cuBLAS, which divides short launches."""
    problem, profile = GemmProblem(*shape), find_preset_profile(device)
    chosen = choose_plan(problem, profile)
    named = choose_plan(problem, profile, PlanOptions("cublas"))
    assert (chosen.spec, chosen.predicted) == (named.spec, named.predicted)


@settings(max_examples=30, deadline=None)
@given(SIZES, SIZES, SIZES, PROFILES, st.sampled_from([None, "float32"]))
def test_no_other_kernel_makes_a_clearly_faster_plan(m, n, k, profile, accuracy):
    problem = GemmProblem(m, n, k)
    plan = choose_plan(problem, profile, PlanOptions(accuracy=accuracy))
    named = (
        choose_plan(problem, profile, PlanOptions(candidate.spec.name, str(candidate.spec.tile)))
        for candidate in find_candidates(problem, profile, PlanOptions(accuracy=accuracy))
    )
    best = min(other.predicted.total_seconds for other in named)
    # Only the first few kernels are considered: rarely another one is a little better.
    assert plan.predicted.total_seconds <= 1.02 * best / (1 - find_split_gain("pageable"))
