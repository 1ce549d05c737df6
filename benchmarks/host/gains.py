"""The README's table of what wavetrim brings: its milliseconds, and NumPy's, CuPy's and PyTorch's.

Products on a quiet and on a busy machine are from the newest results of an H100 that have them;
those with the GPU limited to few multiprocessors are from its sweeps. For GPUs that were not there
the table has predictions, with the same CPU.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.shapes import Shape, make_cube, name_shape
from benchmarks.common.tables import SHOWN, render_table, show_ms
from benchmarks.host.baselines import GPU_ALONE, OURS
from benchmarks.host.results import (
    MEMORY_NAMES,
    Contest,
    HostResults,
    SweepRow,
    list_contests,
    read_contests,
    read_host_results,
)
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem, Memory
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if

PRODUCTS: Final = (
    make_cube(1024),
    make_cube(4096),
    (16384, 16384, 256),
    (29937, 2388, 60),
    (100003, 64, 64),
)
"""Products in float32: squares, and shapes that the link bounds."""

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
    contests, calibrated = (
        [one for one in read(folder) if (one.gpu, one.gpus) == (SHOWN, 1)]
        for read in (read_contests, read_host_results)
    )
    if not contests:
        return ""
    few = list_few(row for one in calibrated for row in one.regret)
    newest = max(calibrated, key=lambda one: str(one.document["measured_at"]))
    lines = [*list_measured(contests), *few, *list_predicted(newest)]
    table = render_table(HEAD, (line.list_cells() for line in lines))
    return f"{describe([*contests, *calibrated])}\n\n{table}"


def describe(results: Sequence[HostResults]) -> str:
    """One sentence: the machine, the commits, and how to read the table."""
    first, *others = results
    commits = [str(one.document["commit"]) for one in others]
    later = [f"and {one}" for one in dict.fromkeys(commits) if one != first.document["commit"]]
    return (
        f"{' '.join([first.caption, *later])}. Milliseconds, medians; the fastest is bold. A cell "
        "is empty where nothing was measured, and under *GPU alone* where that is the plan:"
    )


def list_measured(results: Iterable[HostResults]) -> Iterator[Line]:
    """Lines of the products, by product, memory and condition, from the newest that has each.

    Args:
        results: Results, the oldest first.
    """
    found: dict[tuple[Shape, str, str], Contest] = {}
    for measured in results:
        for contest in list_contests(measured.rows):
            ours = contest.ours
            if ours.dtype == "float32":
                found[ours.shape, ours.memory, ours.condition] = contest
    for shape in PRODUCTS:
        for memory in MEMORIES:
            for condition in CONDITIONS:
                if one := found.get((shape, memory, condition)):
                    times = {name: row.seconds for name, row in one.rows.items()}
                    yield Line(shape, "float32", memory, condition, one.ours.f, times)


def list_few(rows: Iterable[SweepRow]) -> Iterator[Line]:
    """The split with the GPU limited to the fewest multiprocessors, at most one line."""
    split = [row for row in rows if row.is_split and row.is_cube]
    if split:
        row = min(split, key=lambda one: (one.sms, one.m))
        times = {OURS: row.measured_seconds["total"], GPU_ALONE: row.gpu_alone_seconds}
        machine = f"quiet, {row.sms} multiprocessors"
        yield Line(row.shape, row.dtype, row.memory, machine, row.f, times)


def list_predicted(results: HostResults) -> Iterator[Line]:
    """Plans for GPUs by their data sheets, with the CPU of these results."""
    cpu = results.document["profile"]["cpu"]
    for device in PREDICTED_DEVICES:
        profile = find_profile(device, devices=(), directory=None, cpu_threads=cpu["threads"])
        what_if = WhatIf(cpu_gflops=cpu["float64_gflops"])
        plan = choose_plan(
            GemmProblem(*PREDICTED, dtype=PREDICTED_DTYPE),
            apply_what_if(profile, what_if, PREDICTED_DTYPE),
        )
        times = {OURS: plan.predict(plan.f), GPU_ALONE: plan.predict(0)}
        seconds = {name: one.total_seconds for name, one in times.items()}
        machine = f"{device}, *predicted*"
        yield Line(PREDICTED, PREDICTED_DTYPE, "pageable", machine, plan.f, seconds)
