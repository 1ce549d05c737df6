"""The page's model in JavaScript gives what the planner in Python gives: equal, not near."""

import json
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.common.tables import RESULTS
from benchmarks.host.results import read_host_results
from docs.browser import Browser, BrowserError, Page
from docs.explorer_page import SOURCE, join_modules
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.options import ACCURACIES, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
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
KERNEL_NAMES = sorted({spec.name for spec in list_kernels()})
TILES = sorted({str(spec.tile) for spec in list_kernels()})

ASK = """
(query) => {
  const { machine, problem, options, f } = JSON.parse(query);
  const product = new model.GemmProblem(problem);
  try {
    const plan = model.choosePlan(product, machines[machine], options);
    return JSON.stringify({
      f: plan.f,
      kernel: plan.spec && plan.spec.name,
      tile: plan.spec && plan.spec.tile,
      waves: plan.waves,
      waves_gpu_only: plan.wavesGpuOnly,
      tail_utilization: plan.tailUtilization,
      tail_split: plan.tailSplit,
      predicted: [plan.predicted.gpuSeconds, plan.predicted.cpuSeconds],
      other: plan.spec && Object.values(plan.predict(Math.min(f, product.m))),
      alone: [plan.gpuOnlySeconds, plan.cpuOnlySeconds],
      queues: plan.listQueues().map(({ name, spans }) =>
        [name, spans.map(({ begin, end }) => [begin, end])]),
      reason: plan.noGpuReason,
    });
  } catch (error) {
    if (!(error instanceof model.Refusal)) throw error;
    return JSON.stringify({ refused: error.field });
  }
}
"""


class Model:
    """The modules of the page's model, in a browser."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._known: set[str] = set()
        names = ("plan", "problem", "machine", "estimate", "what_if")
        entries = [SOURCE / "model" / "scheduler" / f"{name}.js" for name in names]
        entries += [SOURCE / "model" / f"{name}.js" for name in ("refusal", "tables")]
        page.run(f"globalThis.model = {join_modules(entries)}; globalThis.machines = {{}}; null")
        page.run(f"globalThis.ask = {ASK}; null")

    def make(self, name: str, expression: str) -> None:
        if name not in self._known:
            self._page.run(f"machines[{json.dumps(name)}] = {expression}; null")
            self._known.add(name)

    def learn(self, name: str, profile: MachineProfile) -> None:
        document = profile.as_dict()
        document["corrections"] = [asdict(one) for one in profile.corrections.list_all()]
        self.make(name, f"new model.MachineProfile({json.dumps(document)})")

    def check_fits(self, problem: GemmProblem) -> list[str] | None:
        refusal: list[str] | None = self._page.run(f"""((problem) => {{
            try {{ new model.GemmProblem(problem).checkFits(); return null; }}
            catch ({{ field, limit }}) {{ return [field, limit]; }}
        }})({json.dumps(asdict(problem))})""")
        return refusal

    def ask(
        self, machine: str, problem: GemmProblem, options: PlanOptions, f: int
    ) -> dict[str, Any]:
        query = {
            "machine": machine,
            "problem": asdict(problem),
            "options": options.as_dict(),
            "f": f,
        }
        answer: dict[str, Any] = json.loads(self._page.run(f"ask({json.dumps(json.dumps(query))})"))
        return answer


@pytest.fixture(scope="module")
def model(browser: Browser) -> Model:
    return Model(browser.open_page())


def describe(plan: Plan, f: int) -> dict[str, Any]:
    other = plan.predict(min(f, plan.problem.m)) if plan.spec else None
    return {
        "f": plan.f,
        "kernel": plan.spec and plan.spec.name,
        "tile": plan.spec and str(plan.spec.tile),
        "waves": plan.waves,
        "waves_gpu_only": plan.waves_gpu_only,
        "tail_utilization": plan.tail_utilization,
        "tail_split": plan.tail_split,
        "predicted": [plan.predicted.gpu_seconds, plan.predicted.cpu_seconds],
        "other": other and [other.gpu_seconds, other.cpu_seconds],
        "alone": [plan.gpu_only_seconds, plan.cpu_only_seconds],
        "queues": [
            [name, [list(span) for span in spans]] for name, spans in plan.list_queues().items()
        ],
        "reason": plan.no_gpu_reason,
    }


def check(
    model: Model, machine: str, profile: MachineProfile,
    problem: GemmProblem, options: PlanOptions, f: int = 0,
) -> None:  # fmt: skip
    found = model.ask(machine, problem, options, f)
    try:
        expected = describe(choose_plan(problem, profile, options), f)
    except PlanError as error:
        expected = {"refused": error.field}
    assert found == expected


@cache
def measured_profile() -> MachineProfile:
    (results,) = [one for one in read_host_results(RESULTS) if one.gpu == "h200"]
    profile = complete_kernels(
        complete_rates(MachineProfile.from_dict(results.document["profile"]))
    )
    # Measured before cores that wake up were.
    return replace(profile, cpu=replace(profile.cpu, wake_seconds=4e-4))


@cache
def preset_profile(name: str, threads: int) -> MachineProfile:
    preset = next(one for one in PRESETS if one.name == name)
    return build_preset_profile(preset, "a preset", threads)


sizes = st.one_of(
    st.integers(1, 300),
    st.integers(1, 20_000),
    st.sampled_from([64, 128, 256, 1024, 4096, 8192, 16384, 16385, 65536]),
    st.integers(1, 100_000),
)
problems = st.builds(
    GemmProblem,
    m=sizes, n=sizes, k=sizes,
    dtype=st.one_of(st.sampled_from(["float32", "float64"]), st.sampled_from(list(ITEM_BYTES))),
    memory=st.sampled_from(MEMORIES),
)  # fmt: skip
wanted_rows = st.one_of(st.just("auto"), st.integers(0, 20_000))
plain_options = st.builds(PlanOptions, f=wanted_rows)
options = st.one_of(
    plain_options,
    st.builds(
        PlanOptions,
        kernel=st.sampled_from(["auto", *KERNEL_NAMES]),
        tile=st.one_of(st.none(), st.sampled_from(TILES)),
        f=wanted_rows,
        accuracy=st.one_of(st.none(), st.sampled_from(ACCURACIES)),
        sms=st.one_of(st.none(), st.integers(1, 140)),
    ),
)
rows = st.integers(0, 20_000)
many = settings(max_examples=60, derandomize=True)
some = settings(max_examples=25, derandomize=True)


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
def test_other_numbers_in_place_of_the_machines_are_planned_with(
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
def test_a_product_that_no_memory_holds_is_refused_as_in_python(
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
    plain = measured_profile()
    shares = tuple(replace(share, memory_stretch=1.4) for share in plain.cpu.beside_gpu)
    plain = replace(plain, cpu=replace(plain.cpu, beside_gpu=shares))
    history = RunHistory(None, "test")
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
def test_what_runs_say_of_predictions_corrects_the_page_as_well(
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
