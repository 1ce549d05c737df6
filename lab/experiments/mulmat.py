"""A rectangular product and its grid of blocks: the program `mulmat_1G M N K W`."""

from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.lab.experiments.measurement import (
    Measurement,
    measure_kernels,
    name_wrong,
    plot_launches,
)
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_gflops, format_milliseconds
from wavetrim.scheduler.problem import GemmProblem

NAME: Final = "mulmat"


@dataclass(frozen=True, slots=True)
class BlockGrid:
    """How W × W blocks cover a product.

    Attributes:
        s: Blocks down a column of C: ⌈M/W⌉.
        t: Blocks along a row of C: ⌈N/W⌉.
        r: Steps along K that each block takes: ⌈K/W⌉.
    """

    s: int
    t: int
    r: int

    def __str__(self) -> str:
        return f"S={self.s}, T={self.t}, R={self.r}"


def count_blocks(problem: GemmProblem, w: int) -> BlockGrid:
    """The grid of a product; the last blocks may extend beyond the matrices."""
    return BlockGrid(*(-(-size // w) for size in (problem.m, problem.n, problem.k)))


def run_experiment(
    bench: Bench, m: int = 224, n: int = 256, k: int = 192, *, w: int = 32, kernel: str = "shared"
) -> Report:
    """Multiply rectangular matrices, and show the grid: S x T blocks that take R steps each.

    Example:
        wavetrim reproduce mulmat 224 256 192 --w 32 --out figures
    """
    problem = GemmProblem(m, n, k)
    spec = find_kernel(kernel, problem.dtype, str(w))
    (measured,) = measure_kernels(bench, [(problem, [spec])])
    return make_report(measured, bench.hardware)


def make_report(measured: Measurement, hardware: Hardware) -> Report:
    """The report: the grid, the time, and whether the product was right."""
    m, n, k, w = measured.m, measured.n, measured.k, measured.w
    grid = count_blocks(GemmProblem(m, n, k), w)
    cells = (
        *map(str, (m, n, k, w, grid.s, grid.t, grid.r)),
        format_milliseconds(measured.seconds),
        format_gflops(measured.gflops),
    )
    head = ("M", "N", "K", "W", "S", "T", "R", "ms", "GFLOP/s")
    return Report(
        name=NAME,
        title=f"C[{m},{n}] = A[{m},{k}]·B[{k},{n}] in float32 with the kernel {measured.kernel}, "
        f"W = {w}, operands on the GPU.",
        hardware=hardware,
        findings=(f"{grid}.", *name_wrong([measured])),
        tables=(Table("Grid of blocks, and the median time", head, (cells,)),),
        plots=(
            plot_launches(
                f"{NAME}: C[{m},{n}] = A[{m},{k}]·B[{k},{n}], {measured.kernel}, W = {w}",
                {measured.kernel: measured.launch_seconds},
            ),
        ),
        rows=({**measured.as_row(), "s": grid.s, "t": grid.t, "r": grid.r},),
        passed=measured.passed,
    )
