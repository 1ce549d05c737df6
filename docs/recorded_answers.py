"""Writes the page's data that need no service: the form's choices, and recorded answers.

service/page/catalog.js names element types, kernels and presets. service/page/recorded.js has the
answers of /v1/plan for the explorer's exercises, and for some products that were measured over F on
machines that a service does not know. The service's own functions make both; each is JSON within
one line of JavaScript. Run `make explorer`, or `python -m docs.recorded_answers`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.host.results import HostResults, SweepRow, read_host_results
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.options import ACCURACIES, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import FORMAT_VERSION, build_preset_profile, read_profile
from wavetrim.service.api.products import plan, plan_schemas

PAGE: Final = ROOT / "service" / "page"
EXERCISES: Final = PAGE / "explorer" / "exercise_products.js"

Json = dict[str, Any]

_SPAN: Final = (
    *("begin_seconds", "end_seconds", "first_row", "rows", "first_column", "columns", "depth"),
)
_POINT: Final = ("f", "gpu_seconds", "cpu_seconds")
"""Fields of a schedule's span and of a curve's point; both are recorded as lists."""

_LEAST_CHANGE: Final = 0.015
"""Least relative change of seconds at which a curve's next point is recorded; chosen."""

_DIGITS: Final = 5
_DRAWN_DIGITS: Final = 4
"""Digits of recorded seconds, and of those that are only drawn; chosen."""

_FORMATS: Final = 5, FORMAT_VERSION  # the fifth copied small products otherwise
_MACHINES: Final = ("host-h100",)
_SIDES: Final = 256
_USUAL: Final = (4096, 4096, 4096)
"""The recorded sweeps: their machines, the least M, N and K, and a product that is recorded
without a split, too. Chosen, so that the file stays small."""


def main() -> None:
    """Write both files."""
    for name, text in render_tables().items():
        (PAGE / name).write_text(text, encoding="utf-8")


def render_tables() -> dict[str, str]:
    """The files' texts by name."""
    return {
        "catalog.js": _render("CATALOG", "What can be asked for", collect_catalog()),
        "recorded.js": _render("RECORDED", "Recorded answers of /v1/plan", record()),
    }


def _render(name: str, meaning: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    head = f"/** {meaning}; written by docs/recorded_answers.py. */"
    return f"{head}\nexport const {name} = {text};\n"


def collect_catalog() -> Json:
    """The names that the explorer's form offers, and the largest size."""
    kernels: dict[str, dict[str, list[str]]] = {}
    for spec in list_kernels():
        kernels.setdefault(spec.dtype, {}).setdefault(spec.name, []).append(str(spec.tile))
    versions = {".".join(map(str, preset.compute_capability)) for preset in PRESETS}
    return {
        "maxSize": plan.MAX_SIZE,
        "itemBytes": ITEM_BYTES,
        "memories": MEMORIES,
        "accuracies": ACCURACIES,
        "kernels": kernels,
        "presets": [preset.name for preset in PRESETS],
        "capabilities": sorted(versions, key=float),
    }


def record() -> Json:
    """The answers by their queries without F; the machines and products that were measured."""
    sweeps = [
        (results, row) for results in read_host_results(RESULTS) for row in _list_sweeps(results)
    ]
    asked: dict[str, tuple[Json, Iterable[int]]] = {}
    for state, rows in (*_list_exercises(), *((_describe_sweep(*one), ()) for one in sweeps)):
        asked.setdefault(write_query(state), (state, rows))
    return {
        "names": {"spans": _SPAN, "curve": _POINT},
        "machines": {name_machine(one): one.document["hardware"]["gpu"] for one, _ in sweeps},
        "sweeps": [
            {**_describe_sweep(results, row), **_describe_measured(row)} for results, row in sweeps
        ],
        "products": {query: _answer(state, rows) for query, (state, rows) in asked.items()},
    }


def write_query(state: Mapping[str, Any]) -> str:
    """The query of /v1/plan that the page makes of a state (explorer/query.js), without F."""
    names = ("m", "n", "k", "dtype", "memory", "device", "threads", "kernel", "tile", "sms")
    asked = {name: state[name] for name in names if state.get(name) is not None}
    return urlencode({"cpu_threads" if k == "threads" else k: v for k, v in asked.items()})


def _list_exercises() -> Iterator[tuple[Json, Iterable[int]]]:
    """The states of the opening and the exercises, and of what they compare, with values of F."""
    text = EXERCISES.read_text(encoding="utf-8")
    opening, products = re.findall(r"^export const \w+ = (.*?);\n", text, re.DOTALL | re.MULTILINE)
    exercises = [json.loads(opening), *json.loads(products)]
    for exercise in exercises:
        yield exercise["state"], exercise["rows"]
    for exercise in exercises:
        for changes in exercise["others"].values():
            state = {**exercise["state"], **changes}
            yield state, [state["f"]] if "f" in state else []


def _list_sweeps(results: HostResults) -> Iterator[SweepRow]:
    """The sweeps that are recorded: their fastest F is neither 0 nor M, or the product is usual."""
    if not results.regret or name_machine(results) not in _MACHINES:
        return
    if results.document["profile"]["format"] not in _FORMATS:
        return
    count = results.document["profile"]["gpu"]["sm_count"]
    for row in results.regret:
        is_split = 0 < row.best_f < row.shape[0] and min(row.shape) >= _SIDES
        is_usual = tuple(row.shape) == _USUAL and row.sms == count
        if row.memory == "pageable" and len(row.curve) > 2 and (is_split or is_usual):
            yield row


def name_machine(results: HostResults) -> str:
    """The name of a measured machine in addresses: "host-h100"."""
    gpus = len(results.document["profile"].get("beside") or ()) + 1
    return f"host-{results.gpu}{f'x{gpus}' if gpus > 1 else ''}"


def _describe_sweep(results: HostResults, row: SweepRow) -> Json:
    """The state of a measured product; `sms` is None where all multiprocessors were used."""
    m, n, k = row.shape
    count = results.document["profile"]["gpu"]["sm_count"]
    return {
        "m": m,
        "n": n,
        "k": k,
        "dtype": row.dtype,
        "memory": row.memory,
        "device": name_machine(results),
        "sms": None if row.sms == count else row.sms,
    }


def _describe_measured(row: SweepRow) -> Json:
    """The measurements: [F, seconds] by rising F, and each part's seconds at the chosen F."""
    gpu_seconds, cpu_seconds = row.measured_seconds["gpu"], row.measured_seconds["cpu"]
    return {
        "curve": [[point[0], _round(point[1], _DIGITS)] for point in row.curve],
        "measured": {
            "f": row.f,
            "gpu_seconds": _round(gpu_seconds, _DIGITS),
            "cpu_seconds": _round(cpu_seconds, _DIGITS),
        },
    }


@cache
def find_profile(device: str, threads: int | None) -> MachineProfile:
    """The profile of a measured machine, or of a data sheet with an assumed CPU."""
    for results in read_host_results(RESULTS):
        if name_machine(results) == device and any(_list_sweeps(results)):
            measured = read_profile(results.document["profile"] | {"format": FORMAT_VERSION})
            source = f"measured on {results.caption}"
            beside = (replace(one, source=source) for one in measured.beside)
            return replace(measured, source=source, beside=tuple(beside))
    preset = next(one for one in PRESETS if one.name == device)
    return build_preset_profile(preset, preset.source, threads or 1)


def _answer(state: Json, rows: Iterable[int]) -> Json:
    """The answer with the model's choice of F, and the differences with other F."""
    choice = ask(state, "auto")
    moved = [ask(state, f) for f in rows if f != choice["f"]]
    return {"choice": choice, "moved": [_list_changes(one, choice) for one in moved]}


def _list_changes(answer: Json, choice: Json) -> Json:
    """The fields of an answer that differ from the choice's; the curve is that of the choice."""
    return {k: v for k, v in answer.items() if k != "curve" and v != choice[k]}


def ask(state: Json, f: int | str) -> Json:
    """The answer of /v1/plan to a drawing, with fewer points and digits."""
    problem = GemmProblem(*(state[name] for name in ("m", "n", "k", "dtype", "memory")))
    options = PlanOptions.read({**state, "f": f})
    profile = find_profile(state["device"], state.get("threads"))
    plan = choose_plan(problem, profile, options)
    answer = plan_schemas.PlanView(**plan.describe(drawing=True)).model_dump(mode="json")
    schedule = [{**queue, "spans": _list(queue["spans"], _SPAN)} for queue in answer["schedule"]]
    curve = _list(_thin(answer["curve"], plan.f), _POINT)
    return {**_round(answer, _DIGITS), "schedule": schedule, "curve": curve}


def _list(records: Iterable[Json], names: Iterable[str]) -> list[list[Any]]:
    """The fields of records as lists, with fewer digits."""
    return [[_round(record[name], _DRAWN_DIGITS) for name in names] for record in records]


def _thin(curve: list[Json], f: int) -> list[Json]:
    """The points of a curve where seconds change visibly, its ends, and the plan's F."""
    kept = [curve[0]]
    for point in curve[1:]:
        last = kept[-1]
        change = max(abs(point[name] - last[name]) for name in ("gpu_seconds", "cpu_seconds"))
        is_other = change > _LEAST_CHANGE * max(last["total_seconds"], point["total_seconds"])
        if is_other or point["f"] in (f, curve[-1]["f"]):
            kept.append(point)
    return kept


def _round(value: Any, digits: int) -> Any:
    """Seconds and shares with fewer digits, in all of a document."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {name: _round(one, digits) for name, one in value.items()}
    return [_round(one, digits) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
