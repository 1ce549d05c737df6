"""Draws docs/host-limit-, host-f- and timelines-<gpu>.png from results/host-<gpu>.json.

The first shows percent of the GPU's limit by product, the second time over F with the model's
choice, the third predicted schedules. Run `make figures`, or `python -m benchmarks.host.plots`; it
needs matplotlib.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common.plots import DOCS, Plot, write_plots
from benchmarks.common.shapes import Shape, name_shape
from benchmarks.common.tables import RESULTS
from benchmarks.host.baselines.lineup import OTHERS, OURS
from benchmarks.host.results import HostResults, HostRow, SweepRow, read_host_results
from benchmarks.host.suite import ALL_SHAPES
from benchmarks.host.timelines import plot_timelines
from wavetrim.scheduler.problem import MEMORIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN_DTYPE: Final = "float32"
DRAWN_SWEEPS: Final[tuple[tuple[Shape, str, int | None], ...]] = (
    ((16384, 16384, 256), "float32", None),
    ((65536, 256, 256), "float32", None),
    ((4096, 4096, 4096), "float32", 8),
    ((4096, 4096, 4096), "float64", 4),
    ((3456, 4096, 4096), "float32", 32),
    ((4224, 4224, 4224), "float64", 8),
)
"""Product, element type, multiprocessors (None for all) of the sweeps that are drawn."""

_COLOURS: Final = dict(
    zip(
        (OURS, *OTHERS, "cublasxt"),
        ("#d55e00", "#56b4e9", "#0072b2", "#009e73", "#777777", "#cc79a7"),
        strict=True,
    )
)
_DOTS_PER_INCH: Final = 130
_COLUMNS: Final = 3


def main() -> None:
    """Draw the plots of each results file."""
    write_plots(
        lambda: (plot for one in read_host_results(RESULTS) for plot in list_plots(one).values())
    )


def list_plots(results: HostResults) -> dict[str, Plot]:
    """The plots for which a results file has figures, by name; none for several GPUs."""
    if results.is_several:
        return {}
    plots = {"limit": plot_limit(results)} if pick_rows(results) else {}
    if plots and results.document.get("profile", {}).get("gpu"):
        plots["timelines"] = plot_timelines(results)
    return plots | ({"f": plot_f(results)} if pick_drawn_sweeps(results) else {})


def plot_limit(results: HostResults) -> Plot:
    """Percent of the limit at every product: a panel for each kind of host memory."""
    rows = pick_rows(results)
    figures = [(row.shape, row.memory, row.baseline, row.limit_share) for row in rows]
    title = _name_run(results, f"Host to host, {DRAWN_DTYPE}, {{}}: per cent of its limit alone")
    draw = partial(_draw_limit, title=title, rows=rows)
    return _make_plot(results, "limit", figures, (9.0, 6.4), draw)


def plot_f(results: HostResults) -> Plot:
    """Time over F: measured, predicted, the model's choice and the best one."""
    sweeps = pick_drawn_sweeps(results)
    figures = [
        (row.shape, row.dtype, row.sms, row.f, row.best_f, [list(point) for point in row.curve])
        for row in sweeps
    ]
    title = _name_run(results, "Milliseconds over F, the CPU's rows, {}, pageable memory")
    draw = partial(_draw_f, title=title, sweeps=sweeps, whole=count_sms(results))
    lines = -(-len(sweeps) // min(_COLUMNS, len(sweeps)))
    return _make_plot(results, "f", figures, (9.0, 2.9 * lines), draw)


def _make_plot(
    results: HostResults,
    name: str,
    figures: list[Any],
    inches: tuple[float, float],
    draw: Callable[["Figure"], None],
) -> Plot:
    shown = [results.caption, name, *figures]
    return Plot(DOCS / f"host-{name}-{results.gpu}.png", shown, inches, _DOTS_PER_INCH, draw)


def _name_run(results: HostResults, title: str) -> str:
    gpu = results.document["hardware"]["gpu"]
    return f"{title.format(gpu)}\ncommit {results.document['commit']}"


def pick_rows(results: HostResults) -> list[HostRow]:
    """The rows that the plot of the limit shows."""
    return [
        row
        for row in results.rows
        if row.dtype == DRAWN_DTYPE and row.baseline in _COLOURS and row.limit_share is not None
    ]


def pick_drawn_sweeps(results: HostResults) -> list[SweepRow]:
    """The measured sweeps that the plot of F shows."""
    whole = count_sms(results)
    found = {(row.shape, row.dtype, row.sms): row for row in results.regret if row.curve}
    wanted = ((shape, dtype, sms or whole) for shape, dtype, sms in DRAWN_SWEEPS)
    return [found[key] for key in wanted if key in found]


def count_sms(results: HostResults) -> int:
    """Multiprocessors of the GPU."""
    return max((row.sms for row in results.regret), default=0)


def _draw_limit(figure: "Figure", title: str, rows: Sequence[HostRow]) -> None:
    figure.suptitle(title, fontsize=11)
    panels = figure.subplots(len(MEMORIES), 1, sharex=True)
    for axes, memory in zip(panels, MEMORIES, strict=True):
        _draw_shares(axes, rows, memory)
    names = list(map(name_shape, _list_shapes(rows)))
    panels[-1].set_xticks(range(len(names)), names, rotation=60, fontsize=8)
    for label in panels[-1].get_xticklabels():
        label.set_ha("right")


def _draw_f(figure: "Figure", title: str, sweeps: Sequence[SweepRow], whole: int) -> None:
    columns = min(_COLUMNS, len(sweeps))
    figure.suptitle(title, fontsize=11)
    panels = figure.subplots(-(-len(sweeps) // columns), columns, squeeze=False).flat
    for axes, row in zip(panels, sweeps, strict=False):
        _draw_sweep(axes, row, whole)
    for axes in list(figure.axes)[len(sweeps) :]:
        axes.set_axis_off()
    figure.axes[0].legend(fontsize=7, loc="lower right", frameon=False)


def _draw_shares(axes: "Axes", rows: Sequence[HostRow], memory: str) -> None:
    places = {shape: place for place, shape in enumerate(_list_shapes(rows))}
    for name, colour in _COLOURS.items():
        of = [row for row in rows if (row.baseline, row.memory) == (name, memory)]
        shares = [100 * (row.limit_share or 0.0) for row in of]
        style: dict[str, Any] = {"marker": "D", "s": 30, "zorder": 3} if name == OURS else {"s": 18}
        axes.scatter([places[row.shape] for row in of], shares, color=colour, label=name, **style)
    axes.axhline(100, color="black", linewidth=0.8)
    axes.set_title(f"{memory} memory", fontsize=9)
    axes.set_ylim(0, 1.18 * max([100.0, *(100 * (row.limit_share or 0.0) for row in rows)]))
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7, ncols=len(_COLOURS), loc="upper right", frameon=False)


def _draw_sweep(axes: "Axes", row: SweepRow, whole: int) -> None:
    rows_on_cpu = [point[0] for point in row.curve]
    measured, predicted = ([1e3 * point[of] for point in row.curve] for of in (1, 2))
    axes.plot(rows_on_cpu, measured, ".-", color="#0072b2", ms=4, lw=1, label="measured")
    axes.plot(rows_on_cpu, predicted, "--", color="#999999", lw=1, label="predicted")
    axes.axvline(row.f, color="#d55e00", lw=1.2, label="the model's F")
    axes.axvline(row.best_f, color="#009e73", lw=1.2, ls=":", label="the best F")
    held = "" if row.sms == whole else f", {row.sms} SMs"
    title = f"{name_shape(row.shape)} {row.dtype}{held}\nF = {row.f}, best {row.best_f}"
    axes.set_title(f"{title}: {row.regret:.3f}", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _list_shapes(rows: Sequence[HostRow]) -> list[Shape]:
    measured = {row.shape for row in rows}
    known = [shape for shape in ALL_SHAPES if shape in measured]
    return [*known, *sorted(measured - set(known))]


if __name__ == "__main__":
    main()
