"""The CPU's cost curve: time over the rows of C that the CPU computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.timing.readings import Timed
from wavetrim.lab.experiments.operands import draw_operands
from wavetrim.lab.probes.rates import name_wrong
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_gflops, format_milliseconds
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.problem import GemmProblem

NAME: Final = "cpu-rows"
SHOWS: Final = "the CPU path: seconds and rate over the rows of C; needs no GPU"
ROWS: Final = (1, 4, 16, 64, 128, 256, 512, 1024)
SIDE: Final = 2048
DTYPES: Final = ("float32", "float64")
RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class RowsReading(Timed):
    """Timed runs of one product.

    Attributes:
        problem: The product.
        run_seconds: Seconds of each run.
        right: Whether the last product was right.
    """

    problem: GemmProblem
    run_seconds: tuple[float, ...]
    right: bool

    @property
    def gflops(self) -> float:
        """1e9 multiplications and additions a second, at the median."""
        return self.problem.flops / self.seconds / 1e9


def run_probe(
    bench: Bench, rows: Sequence[int] = ROWS, side: int = SIDE, runs: int = RUNS
) -> Report:
    """Measure each number of rows with a square B, in both element types.

    Args:
        bench: The machine; uses all of its CPU threads, and no GPU.
        rows: Numbers of rows of A and C.
        side: N and K.
        runs: Timed runs of each, after one warm-up.
    """
    problems = [GemmProblem(m, side, side, dtype) for dtype in DTYPES for m in rows]
    readings = []
    with CpuPool(bench.cpu_threads, cache_dir=bench.cache_dir) as pool:
        for done, problem in enumerate(problems):
            bench.tell(done / len(problems), f"{problem.m} rows, {problem.dtype}")
            readings.append(_measure(pool, problem, runs))
    return make_report(readings, bench.hardware)


def make_report(readings: Sequence[RowsReading], hardware: Hardware) -> Report:
    """The report: times and rates over the rows."""
    dtypes = tuple(dict.fromkeys(one.problem.dtype for one in readings))
    known = {(one.problem.dtype, one.problem.m): one for one in readings}
    rows = sorted({one.problem.m for one in readings})
    cells = tuple(
        (
            str(m),
            *(format_milliseconds(known[dtype, m].seconds) for dtype in dtypes),
            *(format_gflops(known[dtype, m].gflops) for dtype in dtypes),
        )
        for m in rows
    )
    head = ("rows", *(f"{name}, ms" for name in dtypes), *(f"{name}, GFLOP/s" for name in dtypes))
    x = tuple(map(float, rows))
    lines = tuple(
        Line(dtype, x, tuple(known[dtype, m].seconds for m in rows), colour=colour)
        for colour, dtype in enumerate(dtypes)
    )
    rates = tuple(
        Line(dtype, x, tuple(known[dtype, m].gflops for m in rows), colour=colour)
        for colour, dtype in enumerate(dtypes)
    )
    problem = readings[0].problem
    panels = (
        Panel("time", "rows of C", "time", lines, powers_of_two=True, logarithmic=True, y_unit="s"),
        Panel("rate", "rows of C", "GFLOP/s", rates, powers_of_two=True),
    )
    return Report(
        name=NAME,
        title=f"C[rows,{problem.n}] = A[rows,{problem.k}]·B[{problem.k},{problem.n}] on "
        f"{hardware.cpu_threads} CPU threads.",
        hardware=hardware,
        findings=name_wrong(
            f"{one.problem.m} rows, {one.problem.dtype}" for one in readings if not one.right
        ),
        tables=(Table("The CPU path", head, cells),),
        plots=(Plot("", f"{NAME}: N = {problem.n}, K = {problem.k}", panels),),
        rows=tuple(
            {
                "dtype": one.problem.dtype,
                "m": one.problem.m,
                "n": one.problem.n,
                "k": one.problem.k,
                "threads": hardware.cpu_threads,
                "median_seconds": one.seconds,
                "least_seconds": min(one.run_seconds),
                "gflops": one.gflops,
                "right": one.right,
            }
            for one in readings
        ),
        passed=all(one.right for one in readings),
    )


def _measure(pool: CpuPool, problem: GemmProblem, runs: int) -> RowsReading:
    a, b = draw_operands(problem)
    c = np.full((problem.m, problem.n), np.nan, problem.dtype)
    seconds = tuple(pool.multiply(a, b, c) for _ in range(runs + 1))[1:]
    return RowsReading(problem, seconds, verify_product(a, b, None, c).passed)
