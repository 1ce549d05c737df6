"""Draws docs/host-limit-<gpu>.png and docs/host-f-<gpu>.png from results/host-<gpu>.json.

The first shows per cent of the GPU's limit by product, the second time over F with the model's
choice. Run `make figures`, or `python -m benchmarks.host.plots`; it needs matplotlib. The same
figures give the same files, which name them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common.plots import digest, save_plot
from benchmarks.common.results import ResultsError
from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.host.baselines.lineup import OTHERS, OURS
from benchmarks.host.results import HostResults, read_host_results
from benchmarks.host.rows import HostRow, SweepRow
from benchmarks.host.suite import ALL_SHAPES, name_shape
from benchmarks.kernels.measured import Shape
from wavetrim.scheduler.problem import MEMORIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS: Final = ROOT / "docs"
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


def main() -> int:
    """Draws the plots of each results file."""
    try:
        results = read_host_results(RESULTS)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 1
    for one in results:
        for name in list_plots(one):
            find_plot(one, name).write_bytes(PLOTS[name](one))
    return 0


def list_plots(results: HostResults) -> list[str]:
    """The plots that there is something for in a results file."""
    return [
        name for name, pick in (("limit", pick_rows), ("f", pick_drawn_sweeps)) if pick(results)
    ]


def find_plot(results: HostResults, name: str) -> Path:
    """Where a plot of a results file stands."""
    return DOCS / f"host-{name}-{results.gpu}.png"


def digest_figures(results: HostResults, name: str) -> str:
    """Names what a plot shows, so that one of other figures is told from it."""
    drawn: list[Any] = [results.caption, name]
    if name == "limit":
        drawn += [
            (row.shape, row.memory, row.baseline, row.limit_share) for row in pick_rows(results)
        ]
    else:
        drawn += [
            (row.shape, row.dtype, row.sms, row.f, row.best_f, [list(point) for point in row.curve])
            for row in pick_drawn_sweeps(results)
        ]
    return digest(drawn)


def pick_rows(results: HostResults) -> list[HostRow]:
    """The rows that the plot of the limit shows."""
    return [
        row
        for row in results.rows
        if row.dtype == DRAWN_DTYPE and row.baseline in _COLOURS and row.limit_share is not None
    ]


def pick_drawn_sweeps(results: HostResults) -> list[SweepRow]:
    """The sweeps that the plot of F shows, those of them that were measured."""
    whole = count_sms(results)
    found = {(row.shape, row.dtype, row.sms): row for row in results.regret if row.curve}
    wanted = ((shape, dtype, sms or whole) for shape, dtype, sms in DRAWN_SWEEPS)
    return [found[key] for key in wanted if key in found]


def count_sms(results: HostResults) -> int:
    """Multiprocessors of the GPU."""
    return max((row.sms for row in results.regret), default=0)


def draw_limit(results: HostResults) -> bytes:
    """Per cent of the limit at every product: a panel for each kind of host memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.4), dpi=_DOTS_PER_INCH, layout="constrained")
    gpu = results.document["hardware"]["gpu"]
    rows = pick_rows(results)
    names = list(map(name_shape, _list_shapes(rows)))
    title = f"Host to host, {DRAWN_DTYPE}, {gpu}: per cent of its limit alone"
    figure.suptitle(f"{title}\ncommit {results.document['commit']}", fontsize=11)
    panels = figure.subplots(len(MEMORIES), 1, sharex=True)
    for axes, memory in zip(panels, MEMORIES, strict=True):
        _draw_shares(axes, rows, memory)
    panels[-1].set_xticks(range(len(names)), names, rotation=60, fontsize=8)
    for label in panels[-1].get_xticklabels():
        label.set_ha("right")
    return save_plot(figure, digest_figures(results, "limit"))


def draw_f(results: HostResults) -> bytes:
    """Time over F: measured, predicted, the model's choice and the best one."""
    from matplotlib.figure import Figure

    sweeps = pick_drawn_sweeps(results)
    columns = min(3, max(1, len(sweeps)))
    lines = max(1, -(-len(sweeps) // columns))
    figure = Figure(figsize=(9.0, 2.9 * lines), dpi=_DOTS_PER_INCH, layout="constrained")
    gpu = results.document["hardware"]["gpu"]
    title = f"Milliseconds over F, the CPU's rows, {gpu}, pageable memory"
    figure.suptitle(f"{title}\ncommit {results.document['commit']}", fontsize=11)
    panels = figure.subplots(lines, columns, squeeze=False).flat
    for axes, row in zip(panels, sweeps, strict=False):
        _draw_sweep(axes, row, count_sms(results))
    for axes in list(figure.axes)[len(sweeps) :]:
        axes.set_axis_off()
    if sweeps:
        figure.axes[0].legend(fontsize=7, loc="lower right", frameon=False)
    return save_plot(figure, digest_figures(results, "f"))


PLOTS: Final = {"limit": draw_limit, "f": draw_f}


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
    sys.exit(main())
