"""The page's model in JavaScript plans exactly as the planner in Python."""

import json
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common.tables import RESULTS
from benchmarks.host.results import read_host_results
from docs.browser import Browser, BrowserError
from tests.page.model import Model, check, many, options, plain_options, problems, rows, some
from tests.scheduler.profiles import change_shares
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_cpu
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import (
    build_preset_profile,
    complete_kernels,
    complete_rates,
    describe_gpu,
)
from wavetrim.scheduler.profile.what_if import WhatIf, suppose

PRESET_NAMES = [preset.name for preset in PRESETS]


@pytest.fixture(scope="module")
def model(browser: Browser) -> Model:
    return Model(browser.open_page())


@cache
def measured_profile() -> MachineProfile:
    (results,) = [
        one
        for one in read_host_results(RESULTS)
        if one.gpu == "h200" and one.rows and not one.is_several
    ]
    return complete_kernels(complete_rates(MachineProfile.from_dict(results.document["profile"])))


@cache
def preset_profile(name: str, threads: int) -> MachineProfile:
    preset = next(one for one in PRESETS if one.name == name)
    return build_preset_profile(preset, "a preset", threads)


@many
@given(
    name=st.sampled_from(PRESET_NAMES), threads=st.integers(1, 128),
    problem=problems, options=options, f=rows,
)  # fmt: skip
def test_a_preset_is_planned_as_in_python(
    model: Model, name: str, threads: int, problem: GemmProblem, options: PlanOptions, f: int
) -> None:
    machine = f"{name} {threads}"
    find = f"model.TABLES.presets.find((one) => one.name === {json.dumps(name)})"
    model.make(machine, f"model.buildPresetProfile({find}, {threads})")
    check(model, machine, preset_profile(name, threads), problem, options, f)


@many
@given(problem=problems, options=options, f=rows)
def test_a_calibrated_machine_is_planned_as_in_python(
    model: Model, problem: GemmProblem, options: PlanOptions, f: int
) -> None:
    model.learn("measured", measured_profile())
    check(model, "measured", measured_profile(), problem, options, f)


@some
@given(
    smcount=st.integers(1, 300), clock=st.integers(300, 4000), memory_clock=st.integers(300, 15000),
    capability=st.sampled_from([(7, 5), (8, 0), (8, 6), (9, 0), (12, 0)]),
    memory_gib=st.integers(1, 200), link=st.sampled_from([None, 15.8, 31.5, 63.0, 450.0]),
    threads=st.integers(1, 64), problem=problems, options=plain_options, f=rows,
)  # fmt: skip
def test_a_gpu_that_is_typed_in_is_planned_as_an_unknown_one_in_python(
    model: Model, smcount: int, clock: int, memory_clock: int, capability: tuple[int, int],
    memory_gib: int, link: float | None, threads: int,
    problem: GemmProblem, options: PlanOptions, f: int,
) -> None:  # fmt: skip
    info = DeviceInfo(
        index=0, name="", uuid="", compute_capability=capability, sm_count=smcount,
        memory_bytes=memory_gib * 2**30, clock_mhz=clock, memory_clock_mhz=memory_clock,
        driver_version="", runtime_version="",
    )  # fmt: skip
    gpu = replace(describe_gpu(info), name="typed in")
    if link is not None:
        gpu = replace(gpu, link_gbytes_per_second=link)
    typed = {
        "smCount": smcount, "clockMhz": clock, "memoryClockMhz": memory_clock,
        "capability": capability, "memoryBytes": memory_gib * 2**30, "linkRate": link,
    }  # fmt: skip
    name = json.dumps([typed, threads])
    model.make(name, f"model.buildPresetProfile(model.describeGpu({json.dumps(typed)}), {threads})")
    check(model, name, build_preset_profile(gpu, "", threads), problem, options, f)


@many
@given(
    machine=st.sampled_from(["T4", "H200", "measured", "corrected", "cpu"]),
    what_if=st.builds(
        WhatIf,
        cpu_threads=st.one_of(st.none(), st.integers(1, 4096)),
        cpu_gflops=st.one_of(st.none(), st.floats(1e-3, 1e9), st.integers(1, 10**5)),
        link_gbytes_per_second=st.one_of(st.none(), st.floats(1e-3, 1e6), st.integers(1, 200)),
    ),
    problem=problems, options=plain_options, f=rows,
)  # fmt: skip
def test_supposed_numbers_are_planned_as_in_python(
    model: Model, machine: str, what_if: WhatIf,
    problem: GemmProblem, options: PlanOptions, f: int,
) -> None:  # fmt: skip
    profile = find_machine(machine)
    model.learn(f"{machine} itself", profile)
    asked = {
        "cpuThreads": what_if.cpu_threads, "cpuGflops": what_if.cpu_gflops,
        "linkRate": what_if.link_gbytes_per_second,
    }  # fmt: skip
    arguments = f"machines['{machine} itself'], {json.dumps(asked)}, '{problem.dtype}'"
    try:
        supposed = suppose(profile, what_if, problem.dtype)
    except PlanError as error:
        with pytest.raises(BrowserError, match=error.field):
            model.make(f"{machine} {asked} {problem.dtype}", f"model.suppose({arguments})")
        return
    name = json.dumps([machine, asked, problem.dtype])
    model.make(name, f"model.suppose({arguments})")
    check(model, name, supposed, problem, options, f)


def find_machine(name: str) -> MachineProfile:
    if name == "cpu":
        return MachineProfile("cpu", "estimate", estimate_cpu(4))
    measured = {"measured": measured_profile, "corrected": corrected_profile}
    return measured[name]() if name in measured else preset_profile(name, 16)


@pytest.mark.parametrize(("side", "fits"), [(2 * 10**6, True), (3.5 * 10**6, False)])
def test_a_product_beyond_memory_is_refused_as_in_python(
    model: Model, side: float, fits: bool
) -> None:
    problem = GemmProblem(int(side), int(side), int(side), "float64")
    found = model.check_fits(problem)
    if fits:
        problem.check_fits()
        assert found is None
        return
    with pytest.raises(ProblemError) as refused:
        problem.check_fits()
    assert found == [refused.value.field, refused.value.limit]


@cache
def corrected_profile() -> MachineProfile:
    """The measured machine after some runs, each a third slower to twice as fast as predicted.

    Copies slow its memory in splits.
    """
    plain = change_shares(measured_profile(), memory_stretch=1.4)
    history = RunHistory(None, "test", calibrated=plain.measured_at is not None)
    for number, (m, n, k) in enumerate([(4096,) * 3, (8192,) * 3, (16384, 16384, 256), (64,) * 3]):
        for dtype in ("float32", "float64"):
            for f in ("auto", 0, m, m // 8):
                plan = choose_plan(GemmProblem(m, n, k, dtype), plain, PlanOptions(f=f))
                for correction in plan.corrections:
                    history.note(correction.run_class, 1.0, 0.5 + 0.21 * (number + len(dtype)) % 1)
    return replace(plain, corrections=history)


@many
@given(
    problem=st.one_of(
        st.builds(
            GemmProblem,
            m=st.integers(2000, 20_000), n=st.integers(2000, 20_000), k=st.integers(64, 16384),
            dtype=st.sampled_from(["float32", "float64"]),
        ),
        problems,
    ),
    options=options, f=rows,
)  # fmt: skip
def test_corrections_by_runs_are_planned_as_in_python(
    model: Model, problem: GemmProblem, options: PlanOptions, f: int
) -> None:
    profile = corrected_profile()
    assert len(profile.corrections.list_all()) > 10
    model.learn("corrected", profile)
    check(model, "corrected", profile, problem, options, f)


@pytest.mark.parametrize("shape", [(10**7, 64, 99), (64, 10**7, 99), (64, 99, 10**7)])
def test_the_longest_sides_are_planned_as_in_python(
    model: Model, shape: tuple[int, int, int]
) -> None:
    model.learn("measured", measured_profile())
    check(model, "measured", measured_profile(), GemmProblem(*shape), PlanOptions(), 5)
