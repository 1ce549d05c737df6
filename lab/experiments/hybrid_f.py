"""The last F rows on the CPU: the program `mulmat_1G1C M N K W F`, Table 17.

Each F is a plan, which the executor runs as for the service: copies overlap the kernel, and the
GPU's part overlaps the CPU's.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from wavetrim.lab.experiments.operands import Matrix, draw_operands, read_numbers
from wavetrim.lab.experiments.reference import HYBRID_SIZE, HYBRID_WIDTH, TABLE_17, SplitSeconds
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Row, Table, format_milliseconds
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile

NAME: Final = "hybrid-f"
RUNS: Final = 7
"""Timed runs, after one warm-up; the report shows the run with the median total."""

_NOTE: Final = (
    "GPU is the GPU part from its first copy to its last, total the whole of both parts. Here "
    "copies overlap the kernel, so GPU can be less than kernel and transfer together."
)
_PARTS: Final = ("kernel", "transfer", "gpu", "cpu")


@dataclass(frozen=True, slots=True)
class Split:
    """The measurement of one F.

    Attributes:
        f: Rows of C that the CPU computed.
        waves: Waves of the GPU part, by the GPU's data sheet.
        timings: Seconds of the run with the median total.
        passed: Whether the product was right.
    """

    f: int
    waves: int
    timings: Timings
    passed: bool


def run_experiment(
    bench: Bench,
    m: int = 2048,
    n: int = 2048,
    k: int = 2048,
    *,
    w: int = 4,
    f: str = "0,4,8,16,24,32",
    kernel: str = "shared",
) -> Report:
    """Give the last F rows to the CPU: seconds of kernel, transfer, GPU and CPU: Table 17.

    Example:
        wavetrim reproduce hybrid-f --f 0,4,8,16,24,32 --out figures
    """
    problem, rows = GemmProblem(m, n, k), read_numbers("--f", f, least=0)
    profile = find_profile(
        None, devices=[bench.device], directory=None, cpu_threads=bench.cpu_threads
    )
    plans = [choose_plan(problem, profile, PlanOptions(kernel, str(w), one)) for one in rows]
    operands = draw_operands(problem)
    executor = Executor(
        cache_dir=bench.cache_dir,
        devices=[bench.device],
        cpu_threads=bench.cpu_threads,
        gpu_memory_bytes=bench.gpu_memory_bytes,
    )
    splits = []
    with executor:
        for done, plan in enumerate(plans):
            bench.tell(done / len(plans), f"F = {plan.f}")
            splits.append(run_plan(executor, plan, *operands))
    bench.tell(1.0, "")
    return make_report(problem, kernel, w, splits, bench.hardware)


def make_report(
    problem: GemmProblem, kernel: str, w: int, splits: Sequence[Split], hardware: Hardware
) -> Report:
    """The report: Table 17 and its plot, with the reference's times if the product is the same."""
    m, n, k = problem.m, problem.n, problem.k
    same = {m, n, k} == {HYBRID_SIZE} and w == HYBRID_WIDTH
    reference = TABLE_17 if same else {}
    wrong = [split.f for split in splits if not split.passed]
    return Report(
        name=NAME,
        title=f"C[{m},{n}] = A[{m},{k}]·B[{k},{n}] in {problem.dtype} with the kernel {kernel}, "
        f"W = {w}, the last F rows on the CPU, operands in host memory.",
        hardware=hardware,
        findings=(*([f"WRONG: F = {f}." for f in wrong] or ["Every product was right."]), _NOTE),
        tables=(_tabulate(splits, reference),),
        plots=(_plot(splits, reference, f"{NAME}: M = {m}, N = {n}, K = {k}, {kernel} W = {w}"),),
        rows=tuple(_make_row(problem, kernel, w, split, reference) for split in splits),
        passed=not wrong,
    )


def run_plan(executor: Executor, plan: Plan, a: Matrix, b: Matrix) -> Split:
    """Run one plan several times, and check the last product."""
    c = np.empty((plan.problem.m, plan.problem.n), a.dtype)
    runs = []
    for _ in range(RUNS + 1):
        c.fill(np.nan)
        runs.append(executor.run(plan, a, b, c, timed=True))
    timed = sorted(runs[1:], key=lambda timings: timings.total_seconds)
    passed = verify_product(a, b, None, c).passed
    return Split(plan.f, plan.waves, timed[RUNS // 2], passed)


def _tabulate(splits: Sequence[Split], reference: dict[int, SplitSeconds]) -> Table:
    """A row for each F, followed by the reference's row if it has this F."""
    rows = []
    for split in splits:
        here = split.timings.as_dict()
        times = (here[f"{part}_seconds"] for part in (*_PARTS, "total"))
        rows.append((str(split.f), "here", str(split.waves), *map(format_milliseconds, times)))
        if split.f in reference:
            there = asdict(reference[split.f])
            times = (there[f"{part}_seconds"] for part in _PARTS)
            rows.append((str(split.f), "reference", "", *map(format_milliseconds, times), ""))
    title = f"{'Table 17: ' if reference else ''}times over F, ms"
    head = ("F", "figures", "waves", "kernel", "transfer", "GPU", "CPU", "total")
    return Table(title, head, tuple(rows))


def _make_row(
    problem: GemmProblem, kernel: str, w: int, split: Split, reference: dict[int, SplitSeconds]
) -> Row:
    known = asdict(reference[split.f]) if split.f in reference else {}
    return {
        "kernel": kernel,
        "w": w,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "f": split.f,
        "waves": split.waves,
        **split.timings.as_dict(),
        "passed": split.passed,
        **{f"reference_{part}_seconds": known.get(f"{part}_seconds") for part in _PARTS},
    }


def _plot(splits: Sequence[Split], reference: dict[int, SplitSeconds], title: str) -> Plot:
    ordered = sorted(splits, key=lambda split: split.f)
    x = tuple(float(split.f) for split in ordered)
    parts = ("kernel", "transfer", "gpu", "cpu", "total")
    times = [
        {part: seconds or 0.0 for part, seconds in split.timings.as_dict().items()}
        for split in ordered
    ]
    here = _draw_lines(x, times, parts)
    panels = [Panel("measured here", "F, rows on the CPU", "time", here, y_unit="s")]
    if reference:
        x = tuple(map(float, reference))
        there = _draw_lines(x, [asdict(known) for known in reference.values()], _PARTS, dashed=True)
        title_there = "the reference's GPU, on a scale of its own"
        panels.append(Panel(title_there, "F, rows on the CPU", "time", there, y_unit="s"))
    return Plot("", title, tuple(panels))


def _draw_lines(
    x: tuple[float, ...],
    times: list[dict[str, float]],
    parts: Sequence[str],
    *,
    dashed: bool = False,
) -> tuple[Line, ...]:
    return tuple(
        Line(
            part.upper() if part in ("gpu", "cpu") else part,
            x,
            tuple(each[f"{part}_seconds"] for each in times),
            dashed,
            colour,
        )
        for colour, part in enumerate(parts)
    )
