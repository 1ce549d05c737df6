"""The README's table of what wavetrim brings: milliseconds beside NumPy, CuPy and PyTorch.

Products on a quiet machine are from results/host-h100.json, those with the GPU held to few
multiprocessors from host-h100-sweeps.json, and those on a busy machine from busy-h100.json, if it
is there. What busy-h100.json has as well is
taken from it alone. Plans
for GPUs that were not at hand are predicted, beside the same CPU.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.shapes import Shape, make_cube, name_shape
from benchmarks.common.tables import SHOWN, render_table, show_ms
from benchmarks.host.baselines.lineup import GPU_ALONE, OURS
from benchmarks.host.busy.rows import BusyResults, ConditionRow, read_busy_file
from benchmarks.host.results import (
    MEMORY_NAMES,
    HostResults,
    HostRow,
    SweepRow,
    read_host_file,
)
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem, Memory
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.scheduler.profile.what_if import WhatIf, suppose

PRODUCTS: Final = (
    make_cube(1024),
    make_cube(4096),
    (16384, 16384, 256),
    (29937, 2388, 60),
    (100003, 64, 64),
)
"""Products in float32: squares, and shapes that the link bounds. Those that no file has are left
out."""

CONDITIONS: Final = ("quiet", "busy")
COLUMNS: Final = {
    OURS: "wavetrim",
    GPU_ALONE: "GPU alone",
    "numpy": "NumPy",
    "cupy": "CuPy",
    "cupy-streams": "CuPy streams",
    "torch": "PyTorch",
}
HEAD: Final = ("product", "memory", "machine", "F", *COLUMNS.values())

PREDICTED: Final = make_cube(4096)
PREDICTED_DTYPE: Final = "float64"
PREDICTED_DEVICES: Final = ("T4", "L4")


@dataclass(frozen=True, slots=True)
class Line:
    """A product on a machine, and the seconds of each column that is known.

    With F = 0 the GPU alone is the same plan, and has no figure of its own.
    """

    shape: Shape
    dtype: str
    memory: Memory
    machine: str
    f: int | None
    seconds: Mapping[str, float]

    def list_cells(self) -> list[str]:
        """Its cells; the least time is bold."""
        seconds = {
            name: self.seconds.get(name)
            for name in COLUMNS
            if not (name == GPU_ALONE and self.f == 0)
        }
        least = min(value for value in seconds.values() if value is not None)
        shown = [
            f"**{show_ms(value)}**" if value == least else show_ms(value)
            for value in map(seconds.get, COLUMNS)
        ]
        product = f"{name_shape(self.shape)} {self.dtype}"
        return [product, MEMORY_NAMES[self.memory], self.machine, str(self.f), *shown]


def render_gains(folder: Path) -> str:
    """The table below a caption; empty without results of the GPU."""
    file = folder / f"host-{SHOWN}.json"
    if not file.exists():
        return ""
    quiet = read_host_file(file)
    sweeps = [read_host_file(one) for one in [folder / f"host-{SHOWN}-sweeps.json"] if one.exists()]
    busy = [read_busy_file(one) for one in [folder / f"busy-{SHOWN}.json"] if one.exists()]
    measured = list_measured(quiet.rows, [row for one in busy for row in one.rows])
    few = list_few(row for one in sweeps for row in one.regret)
    lines = [*measured, *few, *list_predicted(quiet)]
    table = render_table(HEAD, (line.list_cells() for line in lines))
    return f"{describe(quiet, busy, sweeps)}\n\n{table}"


def describe(quiet: HostResults, busy: Iterable[BusyResults], sweeps: Iterable[HostResults]) -> str:
    """One sentence: the machine, the commits, and how to read the table."""
    others: list[tuple[str, HostResults | BusyResults]] = [
        ("few multiprocessors", one) for one in sweeps
    ]
    others += [("busy cores", one) for one in busy]
    commits = [
        f"{name} at {one.document['commit']}"
        for name, one in others
        if one.document["commit"] != quiet.document["commit"]
    ]
    return (
        f"{'; '.join([quiet.caption, *commits])}. Milliseconds, medians; the fastest is bold. "
        "A cell is empty where nothing was measured, and under *GPU alone* where that is the plan:"
    )


def list_measured(rows: Iterable[HostRow], conditions: Iterable[ConditionRow]) -> Iterator[Line]:
    """Lines of the products, by product, memory and condition."""
    found: dict[tuple[Shape, str, str], dict[str, HostRow | ConditionRow]] = {}
    later: dict[tuple[Shape, str, str], dict[str, HostRow | ConditionRow]] = {}
    for row in rows:
        if row.dtype == "float32":
            found.setdefault((row.shape, row.memory, "quiet"), {})[row.baseline] = row
    for one in conditions:
        if one.dtype == "float32":
            later.setdefault((one.shape, one.memory, one.condition), {})[one.baseline] = one
    found |= later
    for shape in PRODUCTS:
        for memory in MEMORIES:
            for condition in CONDITIONS:
                by_name = found.get((shape, memory, condition), {})
                if OURS in by_name:
                    # For the CPU page-locked memory is like any other.
                    numpy = found.get((shape, "pageable", condition), {}).get("numpy")
                    times = {name: row.seconds for name, row in by_name.items()}
                    times |= {} if numpy is None else {"numpy": numpy.seconds}
                    yield Line(shape, "float32", memory, condition, by_name[OURS].f, times)


def list_few(rows: Iterable[SweepRow]) -> Iterator[Line]:
    """The split with the GPU held to the fewest multiprocessors, at most one line."""
    split = [row for row in rows if row.is_split and row.is_cube]
    if split:
        row = min(split, key=lambda one: (one.sms, one.m))
        times = {OURS: row.measured_seconds["total"], GPU_ALONE: row.gpu_alone_seconds}
        machine = f"quiet, {row.sms} multiprocessors"
        memory: Memory = "pinned" if row.memory == "pinned" else "pageable"
        yield Line(row.shape, row.dtype, memory, machine, row.f, times)


def list_predicted(results: HostResults) -> Iterator[Line]:
    """Plans for GPUs of data sheets, beside the CPU of these results."""
    cpu = results.document["profile"]["cpu"]
    rates = {one["dtype"]: one["gflops"] for one in cpu["rates"]}
    for device in PREDICTED_DEVICES:
        profile = find_profile(device, devices=(), directory=None, cpu_threads=cpu["threads"])
        what_if = WhatIf(cpu_gflops=rates[PREDICTED_DTYPE])
        plan = choose_plan(
            GemmProblem(*PREDICTED, dtype=PREDICTED_DTYPE),
            suppose(profile, what_if, PREDICTED_DTYPE),
        )
        times = {OURS: plan.predict(plan.f), GPU_ALONE: plan.predict(0)}
        seconds = {name: one.total_seconds for name, one in times.items()}
        machine = f"{device}, *predicted*"
        yield Line(PREDICTED, PREDICTED_DTYPE, "pageable", machine, plan.f, seconds)
