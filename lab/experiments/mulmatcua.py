"""Square products with tiles along K: the program `mulmatcua_1G N W`, Tables 10–16, Figs. 8–13."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.lab.experiments.measurement import Measurement, measure_kernels, name_wrong
from wavetrim.lab.experiments.operands import read_numbers
from wavetrim.lab.experiments.reference import SQUARE_SIZES, TABLE_10
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_gflops, format_milliseconds, format_ratio
from wavetrim.scheduler.problem import GemmProblem

NAME: Final = "mulmatcua"
_NOTE: Final = (
    "What is called *reference* is the reference's own times (its Table 10) and what follows "
    "from them."
)

Figures = Mapping[tuple[int, int], float]
"""Seconds, or rates, by (N, W)."""


def run_experiment(
    bench: Bench,
    *,
    sizes: str = "512,1024,2048,4096",
    w: str = "4,8,16,32",
    kernel: str = "shared",
) -> Report:
    """Multiply square matrices with tiles of each width: Tables 10–16, times and GFLOP/s.

    Options:
        w (W,W,…): Widths of the tile.

    Example:
        wavetrim reproduce mulmatcua --kernel simple --out figures
    """
    specs = [find_kernel(kernel, "float32", str(width)) for width in read_numbers("--w", w)]
    cases = [(GemmProblem(n, n, n), specs) for n in read_numbers("--sizes", sizes)]
    return make_report(measure_kernels(bench, cases), bench.hardware)


def make_report(measured: Sequence[Measurement], hardware: Hardware) -> Report:
    """The report: Tables 10 (times), 11–14 (speed-up over the smallest W), 15 and 16 (over N)."""
    seconds = {(one.n, one.w): one.seconds for one in measured}
    sizes = sorted({one.n for one in measured})
    widths = sorted({one.w for one in measured})
    times, *further = _tabulate_all_sizes(seconds, sizes, widths)
    return Report(
        name=NAME,
        title=(
            "C[N,N] = A[N,N]·B[N,N] in float32 with the kernel "
            f"{measured[0].kernel}, W × W threads a block, operands on the GPU."
        ),
        hardware=hardware,
        findings=(*name_wrong(measured), _NOTE),
        tables=(times, *(_tabulate_speedups(seconds, n, widths) for n in sizes), *further),
        plots=(_plot_times(seconds, sizes, widths), _plot_rates(seconds, sizes, widths)),
        rows=tuple(
            {**one.as_row(), "reference_seconds": TABLE_10.get((one.n, one.w))} for one in measured
        ),
        passed=all(one.passed for one in measured),
    )


def _divide(
    seconds: Figures, above: tuple[int, int], below: tuple[int, int], factor: float = 1.0
) -> str:
    """The ratio of the times at two (N, W), times a factor; empty if either is missing."""
    if above not in seconds or below not in seconds:
        return ""
    return format_ratio(factor * seconds[above] / seconds[below])


def _tabulate_speedups(seconds: Figures, n: int, widths: list[int]) -> Table:
    base = n, widths[0]
    rows = tuple(
        (str(w), *(_divide(times, base, (n, w)) for times in (seconds, TABLE_10))) for w in widths
    )
    number = f"Table {11 + SQUARE_SIZES.index(n)}: " if n in SQUARE_SIZES else ""
    title = f"{number}speed-up over W = {widths[0]} at N = {n}"
    return Table(title, ("W", "here", "reference"), rows)


def _tabulate_all_sizes(seconds: Figures, sizes: list[int], widths: list[int]) -> tuple[Table, ...]:
    base = sizes[0]

    def show_time(times: Figures, n: int, w: int) -> str:
        return format_milliseconds(times.get((n, w)))

    def show_growth(times: Figures, n: int, w: int) -> str:
        return _divide(times, (n, w), (base, w))

    def show_gain(times: Figures, n: int, w: int) -> str:
        return _divide(times, (base, w), (n, w), (n / base) ** 3)

    def show_rate(times: Figures, n: int, w: int) -> str:
        return format_gflops(_find_rates(times).get((n, w)))

    gain = f"Table 16: speed-up over N = {base}, for the same number of operations"
    return tuple(
        _tabulate_sizes(title, seconds, sizes, widths, show)
        for title, show in (
            ("Table 10: times, ms", show_time),
            (f"Table 15: time over that of N = {base}", show_growth),
            (gain, show_gain),
            ("Rates, GFLOP/s", show_rate),
        )
    )


def _tabulate_sizes(
    title: str,
    seconds: Figures,
    sizes: list[int],
    widths: list[int],
    show: Callable[[Figures, int, int], str],
) -> Table:
    """A row for each N, followed by the reference's if it has this N; a column for each W."""
    rows = []
    for n in sizes:
        rows.append((str(n), "here", *(show(seconds, n, w) for w in widths)))
        beside = tuple(show(TABLE_10, n, w) for w in widths)
        if any(beside):
            rows.append((str(n), "reference", *beside))
    return Table(title, ("N", "figures", *(f"W = {w}" for w in widths)), tuple(rows))


def _plot_times(seconds: Figures, sizes: list[int], widths: list[int]) -> Plot:
    lines = (
        *_draw_lines("W", seconds, sizes, widths),
        *_draw_lines("reference, W", TABLE_10, sizes, widths),
    )
    over_n = Panel("over N", "N", "time", lines, powers_of_two=True, logarithmic=True, y_unit="s")
    over_w = Panel(
        *("over W", "W", "time", _swap_lines(seconds, sizes, widths)),
        powers_of_two=True,
        logarithmic=True,
        y_unit="s",
    )
    return Plot("time", f"{NAME}: time", (over_n, over_w), same_y=True)


def _plot_rates(seconds: Figures, sizes: list[int], widths: list[int]) -> Plot:
    rates = _find_rates(seconds)
    lines = (
        *_draw_lines("W", rates, sizes, widths),
        *_draw_lines("reference, W", _find_rates(TABLE_10), sizes, widths),
    )
    over_n = Panel("over N", "N", "GFLOP/s", lines, powers_of_two=True)
    over_w = Panel("over W", "W", "GFLOP/s", _swap_lines(rates, sizes, widths), powers_of_two=True)
    return Plot("gflops", f"{NAME}: rate", (over_n, over_w), same_y=True)


def _find_rates(seconds: Figures) -> Figures:
    """GFLOP/s by (N, W)."""
    return {(n, w): 2 * n**3 / time / 1e9 for (n, w), time in seconds.items()}


def _draw_lines(words: str, values: Figures, sizes: list[int], widths: list[int]) -> list[Line]:
    """Lines over N, one for each W; of the reference only the N measured here."""
    lines = []
    for colour, w in enumerate(widths):
        x = tuple(n for n in sizes if (n, w) in values)
        y = tuple(values[n, w] for n in x)
        if x:
            lines.append(Line(f"{words} = {w}", x, y, words != "W", colour))
    return lines


def _swap_lines(values: Figures, sizes: list[int], widths: list[int]) -> tuple[Line, ...]:
    """Lines over W, one for each N."""
    x = tuple(map(float, widths))
    return tuple(
        Line(f"N = {n}", x, tuple(values[n, w] for w in widths), colour=colour)
        for colour, n in enumerate(sizes)
    )
