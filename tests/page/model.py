"""The page's model in a browser and the planner in Python, asked for the same plans."""

import json
from dataclasses import asdict
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from docs.browser import Page
from docs.explorer_page import SOURCE, join_modules
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import ACCURACIES, PlanOptions
from wavetrim.scheduler.planning.candidates import find_positions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.queues import Queue, list_queues
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

KERNEL_NAMES = sorted({spec.name for spec in list_kernels()})
TILES = sorted({str(spec.tile) for spec in list_kernels()})

ASK = """
(query) => {
  const { machine, problem, options, f, takesAll } = JSON.parse(query);
  const profile = machines[machine];
  const product = new model.GemmProblem(problem);
  try {
    const plan = takesAll
      ? model.choosePlanOn(product, profile, options, model.findPositions(profile))
      : model.choosePlan(product, profile, options);
    return JSON.stringify({
      f: plan.f,
      kernel: plan.spec && plan.spec.name,
      tile: plan.spec && plan.spec.tile,
      waves: plan.waves,
      waves_gpu_only: plan.wavesGpuOnly,
      tail_utilization: plan.tailUtilization,
      tail_split: plan.tailSplit,
      predicted: [plan.predicted.gpuSeconds, plan.predicted.cpuSeconds],
      parts: plan.gpuParts.map((part) =>
        [part.position, part.rows, part.columns, part.waves, part.seconds]),
      exchanges: plan.exchanges,
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
        names = ("choice", "candidates", "problem", "machine", "estimate", "what_if")
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
        self, machine: str, problem: GemmProblem, options: PlanOptions, f: int,
        *, takes_all: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """The plan of a machine, with the seconds at F = `f`; `takes_all` uses all of its GPUs."""
        query = {
            "machine": machine,
            "problem": asdict(problem),
            "options": options.as_dict(),
            "f": f,
            "takesAll": takes_all,
        }
        answer: dict[str, Any] = json.loads(self._page.run(f"ask({json.dumps(json.dumps(query))})"))
        return answer


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
        "parts": [
            [one.position, _list_ends(one.rows), _list_ends(one.columns), one.waves, one.seconds]
            for one in plan.gpu_parts
        ],
        "exchanges": plan.exchanges,
        "other": other and [other.gpu_seconds, other.cpu_seconds],
        "alone": [plan.gpu_only_seconds, plan.cpu_only_seconds],
        "queues": [
            [_name_queue(plan, queue), [list(span[:2]) for span in queue.spans]]
            for queue in list_queues(plan)
        ],
        "reason": plan.no_gpu_reason,
    }


def _name_queue(plan: Plan, queue: Queue) -> str:
    """The name of a queue as the page has it: of several GPUs, with the GPU's position."""
    if queue.work == "cpu":
        return "CPU"
    positions = [part.position for part in plan.gpu_parts]
    names = {f"cuda:{plan.profile.gpus[one].index}": one for one in positions}
    return queue.work if len(positions) == 1 else f"{queue.work} {names[queue.device]}"


def _list_ends(part: range) -> list[int]:
    return [part.start, part.stop]


def check(
    model: Model, machine: str, profile: MachineProfile,
    problem: GemmProblem, options: PlanOptions, f: int = 0,
) -> None:  # fmt: skip
    """Assert that the page's plan equals Python's; of several GPUs also the plan with all."""
    is_possible = options.f == "auto" or options.f <= problem.m
    for takes_all in (False, True) if profile.beside and is_possible else (False,):
        found = model.ask(machine, problem, options, f, takes_all=takes_all)
        try:
            positions = find_positions(profile, None)
            plan = (
                choose_plan_on(problem, profile, options, positions)
                if takes_all
                else choose_plan(problem, profile, options)
            )
            expected = describe(plan, f)
        except PlanError as error:
            expected = {"refused": error.field}
        assert found == expected


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
