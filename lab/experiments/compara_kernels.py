"""Three kernels on C[N,N] = A[N,W]·B[W,N]: the program `compara_kernels N W K`, Tables 1–9.

K is one tile: a block loads its tiles once and adds W products for each element.
"""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.lab.experiments.measurement import Measurement, measure_kernels, name_wrong
from wavetrim.lab.experiments.operands import read_numbers
from wavetrim.lab.experiments.reference import SQUARE_SIZES
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_gflops, format_milliseconds, format_ratio
from wavetrim.scheduler.problem import GemmProblem

NAME: Final = "compara-kernels"
KERNELS: Final = ("simple", "coalesced", "shared")

_Measured = dict[tuple[int, int, str], Measurement]


def run_experiment(
    bench: Bench, *, sizes: str = "512,1024,2048,4096", w: str = "4,8,16,32"
) -> Report:
    """Compare the kernels simple, coalesced and shared on C[N,N] = A[N,W]·B[W,N]: Tables 1–9.

    Options:
        w (W,W,…): Widths of the tile.

    Example:
        wavetrim reproduce compara-kernels --out figures
    """
    cases = [
        (GemmProblem(n, n, width), [find_kernel(name, "float32", str(width)) for name in KERNELS])
        for n in read_numbers("--sizes", sizes)
        for width in read_numbers("--w", w)
    ]
    return make_report(measure_kernels(bench, cases), bench.hardware)


def make_report(measured: Sequence[Measurement], hardware: Hardware) -> Report:
    """The report: Tables 1–4 (times), 5–8 (speed-up over simple) and 9 (rates), and a plot."""
    by_case = {(one.n, one.w, one.kernel): one for one in measured}
    sizes = sorted({one.n for one in measured})
    widths = sorted({one.w for one in measured})
    return Report(
        name=NAME,
        title="C[N,N] = A[N,W]·B[W,N] in float32, W × W threads a block, operands on the GPU.",
        hardware=hardware,
        findings=name_wrong(measured),
        tables=(
            *(_tabulate_times(by_case, n, widths) for n in sizes),
            *(_tabulate_speedups(by_case, n, widths) for n in sizes),
            _tabulate_rates(by_case, sizes, widths),
        ),
        plots=(_plot_times(by_case, sizes, widths),),
        rows=tuple(one.as_row() for one in measured),
        passed=all(one.passed for one in measured),
    )


def _tabulate_times(measured: _Measured, n: int, widths: list[int]) -> Table:
    rows = (
        (str(w), *(format_milliseconds(measured[n, w, name].seconds) for name in KERNELS))
        for w in widths
    )
    return Table(f"{_number(n, 1)}times at N = {n}, ms", ("W", *KERNELS), tuple(rows))


def _tabulate_speedups(measured: _Measured, n: int, widths: list[int]) -> Table:
    def compare(w: int, name: str) -> str:
        return format_ratio(measured[n, w, "simple"].seconds / measured[n, w, name].seconds)

    rows = ((str(w), *(compare(w, name) for name in KERNELS)) for w in widths)
    title = f"{_number(n, 5)}speed-up over simple at N = {n}"
    return Table(title, ("W", *KERNELS), tuple(rows))


def _tabulate_rates(measured: _Measured, sizes: list[int], widths: list[int]) -> Table:
    rows = (
        (str(n), str(w), *(format_gflops(measured[n, w, name].gflops) for name in KERNELS))
        for n in sizes
        for w in widths
    )
    return Table("Table 9: rates, GFLOP/s", ("N", "W", *KERNELS), tuple(rows))


def _number(n: int, first: int) -> str:
    """Number of the reference's table for this N; empty for a size it does not have."""
    return f"Table {first + SQUARE_SIZES.index(n)}: " if n in SQUARE_SIZES else ""


def _plot_times(measured: _Measured, sizes: list[int], widths: list[int]) -> Plot:
    x = tuple(map(float, sizes))

    def draw_kernel(name: str) -> Panel:
        lines = tuple(
            Line(f"W = {w}", x, tuple(measured[n, w, name].seconds for n in sizes), colour=colour)
            for colour, w in enumerate(widths)
        )
        return Panel(name, "N", "time", lines, powers_of_two=True, logarithmic=True, y_unit="s")

    title = f"{NAME}: time over (N, W)"
    return Plot("", title, tuple(map(draw_kernel, KERNELS)), same_y=True)
