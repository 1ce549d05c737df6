"""The plot docs/host-limit-<gpu>.png: per cent of the GPU's limit at each product.

It shows the newest results that have limits, on a quiet machine.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common.plots import DOCS, Plot
from benchmarks.common.results import ResultsError
from benchmarks.common.shapes import Shape, name_shape
from benchmarks.common.tables import RESULTS, SHOWN
from benchmarks.host.baselines import OURS
from benchmarks.host.results import HostResults, HostRow, read_contests
from wavetrim.scheduler.problem import MEMORIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN_DTYPE: Final = "float32"

_COLOURS: Final = {
    OURS: "#d55e00",
    "cupy": "#56b4e9",
    "cupy-streams": "#0072b2",
    "torch": "#009e73",
    "numpy": "#777777",
    "cublasxt": "#cc79a7",
}


def plot_shown() -> Plot:
    """The plot that the documents show."""
    for results in reversed(read_contests(RESULTS)):
        if (results.gpu, results.gpus) == (SHOWN, 1) and any(
            row.limit_share for row in results.rows
        ):
            return plot_limit(results)
    raise ResultsError(f"no results of an {SHOWN} have limits; `make bench-host` writes some")


def plot_limit(results: HostResults) -> Plot:
    """Percent of the limit at every product: a panel for each kind of host memory."""
    rows = [
        row
        for row in results.rows
        if (row.dtype, row.condition) == (DRAWN_DTYPE, "quiet")
        and row.baseline in _COLOURS
        and row.limit_share is not None
    ]
    figures = [(row.shape, row.memory, row.baseline, row.limit_share) for row in rows]
    gpu, commit = results.document["hardware"]["gpu"], results.document["commit"]
    title = f"Host to host, {DRAWN_DTYPE}, {gpu}: per cent of its limit alone\ncommit {commit}"
    return Plot(
        DOCS / f"host-limit-{results.gpu}.png",
        [results.caption, "limit", *figures],
        inches=(9.0, 6.4),
        dots=130,
        draw=partial(_draw_limit, title=title, rows=rows),
    )


def _draw_limit(figure: "Figure", title: str, rows: Sequence[HostRow]) -> None:
    figure.suptitle(title, fontsize=11)
    panels = figure.subplots(len(MEMORIES), 1, sharex=True)
    for axes, memory in zip(panels, MEMORIES, strict=True):
        _draw_shares(axes, rows, memory)
    names = list(map(name_shape, _list_shapes(rows)))
    panels[-1].set_xticks(range(len(names)), names, rotation=60, fontsize=8)
    for label in panels[-1].get_xticklabels():
        label.set_ha("right")


def _draw_shares(axes: "Axes", rows: Sequence[HostRow], memory: str) -> None:
    positions = {shape: index for index, shape in enumerate(_list_shapes(rows))}
    for name, colour in _COLOURS.items():
        of = [row for row in rows if (row.baseline, row.memory) == (name, memory)]
        shares = [100 * (row.limit_share or 0.0) for row in of]
        style: dict[str, Any] = {"marker": "D", "s": 30, "zorder": 3} if name == OURS else {"s": 18}
        x = [positions[row.shape] for row in of]
        axes.scatter(x, shares, color=colour, label=name, **style)
    axes.axhline(100, color="black", linewidth=0.8)
    axes.set_title(f"{memory} memory", fontsize=9)
    axes.set_ylim(0, 1.18 * max([100.0, *(100 * (row.limit_share or 0.0) for row in rows)]))
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7, ncols=len(_COLOURS), loc="upper right", frameon=False)


def _list_shapes(rows: Sequence[HostRow]) -> list[Shape]:
    return list(dict.fromkeys(row.shape for row in rows))
