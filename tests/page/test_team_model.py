"""Plans for several GPUs in the page's model equal those in Python."""

import json
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common.tables import RESULTS
from benchmarks.host.results import read_host_results
from docs.browser import Browser
from tests.page.model import Model, check, many, options, problems, rows, some
from tests.scheduler.profiles import find_preset_profile, join_profiles
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.joint import JointLinks
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.what_if import WhatIf, suppose

NAMES = [preset.name for preset in PRESETS]

sides = st.one_of(st.integers(1000, 40_000), st.sampled_from([2048, 4096, 8192, 16384, 32768]))
products = st.builds(
    GemmProblem,
    m=sides, n=sides, k=sides,
    dtype=st.sampled_from(["float32", "float64", "float16"]),
    memory=st.sampled_from(MEMORIES),
)  # fmt: skip
"""Large products, most of which use several GPUs."""
team_options = st.builds(PlanOptions, f=st.one_of(st.just("auto"), st.integers(0, 1000)))
rates = st.floats(1.0, 1000.0)


@pytest.fixture(scope="module")
def model(browser: Browser) -> Model:
    return Model(browser.open_page())


@many
@given(
    name=st.sampled_from(NAMES), count=st.integers(2, 8), threads=st.sampled_from([1, 2, 16, 64]),
    problem=st.one_of(products, problems), options=st.one_of(team_options, options), f=rows,
)  # fmt: skip
def test_several_of_a_preset_are_planned_as_in_python(
    model: Model, name: str, count: int, threads: int,
    problem: GemmProblem, options: PlanOptions, f: int,
) -> None:  # fmt: skip
    machine = f"{count} {name} {threads}"
    preset = f"model.TABLES.presets.find((one) => one.name === {json.dumps(name)})"
    model.make(machine, f"model.buildPresetProfile({preset}, {threads}).repeatGpu({count})")
    check(model, machine, find_preset_profile(f"{name} x{count}", threads), problem, options, f)


@cache
def measured_profile(count: int = 2) -> MachineProfile:
    """GPUs of one host, with measured joint rates of their links and a rate between them."""
    documents = [one.document["profile"] for one in read_host_results(RESULTS)]
    document, *_ = [one for one in documents if len(one.get("beside", ())) == count - 1 > 0]
    return MachineProfile.from_dict(document)


@many
@given(problem=products, options=team_options, f=rows, count=st.sampled_from([2, 4]))
def test_gpus_that_were_measured_together_are_planned_as_in_python(
    model: Model, problem: GemmProblem, options: PlanOptions, f: int, count: int
) -> None:
    model.learn(f"measured{count}", measured_profile(count))
    check(model, f"measured{count}", measured_profile(count), problem, options, f)


def test_copied_exchanged_and_divided_b_are_compared(model: Model) -> None:
    """B fetched by each GPU, B exchanged, and columns divided."""
    model.learn("measured", measured_profile())
    found = []
    for shape in ((16384, 64, 512), (16384, 16384, 4096), (64, 8192, 8192)):
        problem = GemmProblem(*shape, "float16", "pinned")
        plan = choose_plan(problem, measured_profile())
        found.append((plan.exchanges, plan.divides_columns))
        check(model, "measured", measured_profile(), problem, PlanOptions())
    assert found == [(False, False), (True, False), (False, True)]


joints = st.builds(
    JointLinks,
    memory=st.sampled_from(MEMORIES), gpus=st.integers(2, 4),
    in_gbytes_per_second=rates, out_gbytes_per_second=rates, both_gbytes_per_second=rates,
    source=st.just("measured"), split_stretch=st.floats(1.0, 3.0),
    call_seconds=st.none() | st.floats(0.0, 1e-3),
)  # fmt: skip


@many
@given(
    name=st.sampled_from(NAMES), count=st.integers(2, 4),
    joint=st.lists(joints, max_size=3), peer=st.one_of(st.just(0.0), rates),
    problem=products, options=team_options, f=rows,
)  # fmt: skip
def test_joint_and_peer_rates_are_planned_as_in_python(
    model: Model, name: str, count: int, joint: list[JointLinks], peer: float,
    problem: GemmProblem, options: PlanOptions, f: int,
) -> None:  # fmt: skip
    profile = replace(
        find_preset_profile(f"{name} x{count}", 8), joint=tuple(joint), peer_gbytes_per_second=peer
    )
    machine = json.dumps([name, count, [str(one) for one in joint], peer])
    model.learn(machine, profile)
    check(model, machine, profile, problem, options, f)


@some
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=3),
    slower=st.sampled_from([1.0, 0.96, 0.5]), joint=st.lists(joints, max_size=2),
    problem=products, options=team_options, f=rows,
)  # fmt: skip
def test_gpus_that_differ_are_planned_as_in_python(
    model: Model, names: list[str], slower: float, joint: list[JointLinks],
    problem: GemmProblem, options: PlanOptions, f: int,
) -> None:  # fmt: skip
    """They divide rows so that all end together; links that differ by 4% count as equal."""
    profiles = [replace(find_preset_profile(name, 8), joint=tuple(joint)) for name in names]
    links = tuple(
        replace(link, in_gbytes_per_second=slower * link.in_gbytes_per_second)
        for link in profiles[-1].links
    )
    profile = join_profiles(*profiles[:-1], replace(profiles[-1], links=links))
    machine = json.dumps([names, slower, [str(one) for one in joint]])
    model.learn(machine, profile)
    check(model, machine, profile, problem, options, f)


@cache
def corrected_profile() -> MachineProfile:
    """The measured GPUs after some runs, alone and together."""
    plain = measured_profile()
    history = RunHistory(None, "test", calibrated=plain.measured_at is not None)
    for number, side in enumerate((2048, 4096, 8192, 16384)):
        for f in ("auto", 0, side // 8):
            for devices in ("0", "0,1"):
                problem = GemmProblem(side, side, side, memory="pinned")
                plan = choose_plan(problem, plain, PlanOptions(f=f, devices=devices))
                for one in plan.corrections:
                    history.note(one.run_class, 1.0, 0.7 + 0.17 * (number + len(devices)) % 0.6)
    beside = tuple(replace(one, corrections=history) for one in plain.beside)
    return replace(plain, beside=beside, corrections=history)


@many
@given(problem=products, options=team_options, f=rows)
def test_corrections_of_several_gpus_are_planned_as_in_python(
    model: Model, problem: GemmProblem, options: PlanOptions, f: int
) -> None:
    profile = corrected_profile()
    devices = {one.run_class.device for one in profile.corrections.list_all()}
    assert {"gpu from pinned memory", "each of 2 gpus, gpu from pinned memory"} <= devices
    model.learn("corrected", profile)
    check(model, "corrected", profile, problem, options, f)


@some
@given(
    what_if=st.builds(
        WhatIf,
        cpu_threads=st.one_of(st.none(), st.integers(1, 256)),
        cpu_gflops=st.one_of(st.none(), st.integers(1, 10**5)),
        link_gbytes_per_second=st.one_of(st.none(), st.integers(1, 200)),
    ),
    problem=products, options=team_options, f=rows,
)  # fmt: skip
def test_supposed_numbers_of_several_gpus_are_planned_as_in_python(
    model: Model, what_if: WhatIf, problem: GemmProblem, options: PlanOptions, f: int
) -> None:
    profile = corrected_profile()
    model.learn("corrected", profile)
    asked = {
        "cpuThreads": what_if.cpu_threads, "cpuGflops": what_if.cpu_gflops,
        "linkRate": what_if.link_gbytes_per_second,
    }  # fmt: skip
    name = json.dumps([asked, problem.dtype])
    arguments = f"machines.corrected, {json.dumps(asked)}, '{problem.dtype}'"
    model.make(name, f"model.suppose({arguments})")
    check(model, name, suppose(profile, what_if, problem.dtype), problem, options, f)


def test_the_first_three_of_eight_gpus_are_planned_as_in_python(model: Model) -> None:
    model.make("eight", "model.buildPresetProfile(model.TABLES.presets[0], 16).repeatGpu(8)")
    model.make("three", "machines.eight.takeGpus(3)")
    problem = GemmProblem(16384, 16384, 16384, memory="pinned")
    profile = find_preset_profile(f"{NAMES[0]} x8", 16)
    expected = choose_plan(problem, profile, PlanOptions(devices="0,1,2"))
    found = model.ask("three", problem, PlanOptions(), 0)
    assert found["f"] == expected.f
    assert found["predicted"][0] == expected.predicted.gpu_seconds
    assert [part[0] for part in found["parts"]] == [0, 1, 2]
