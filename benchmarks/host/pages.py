"""Products in process as pages show them: tables of contests and of sweeps of F, and a plot.

The plot is docs/host-limit-<gpu>.png: per cent of the GPU's limit at each product, from the newest
results that have limits, on a quiet machine.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common.plots import DOCS, Plot
from benchmarks.common.results import ResultsError
from benchmarks.common.shapes import Shape, name_shape
from benchmarks.common.tables import RESULTS, SHOWN, render_table, show
from benchmarks.host.baselines import OURS
from benchmarks.host.conditions import CONDITIONS, Condition
from benchmarks.host.results import (
    MEMORY_NAMES,
    Contest,
    HostResults,
    HostRow,
    list_contests,
    list_versions,
    read_contests,
)
from wavetrim.scheduler.problem import MEMORIES, Memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PEERS: Final = {
    "CuPy": "cupy",
    "CuPy, streams": "cupy-streams",
    "CuPy on all GPUs": "cupy-gpus",
    "PyTorch": "torch",
    "NumPy": "numpy",
    "cublasXt": "cublasxt",
}
"""Others by their baselines' names."""

HEAD: Final = (
    *("machine", "condition", "memory", "products", "share of the limit"),
    *(f"speed over {name}" for name in PEERS),
    *("over the fastest", "at worst", "another is faster"),
)

DRAWN_DTYPE: Final = "float32"

_COLOURS: Final = {
    OURS: "#d55e00",
    "cupy": "#56b4e9",
    "cupy-streams": "#0072b2",
    "torch": "#009e73",
    "numpy": "#777777",
    "cublasxt": "#cc79a7",
}

_Key = tuple[str, Condition, Memory]
"""A machine, a condition and a kind of memory."""


def render_times(results: Sequence[HostResults]) -> str:
    """A line for each machine, condition and kind of memory, from the newest results that have it.

    Args:
        results: Results, the oldest first.
    """
    lines = {key: cells for one in results for key, cells in _list_lines(one)}
    if not lines:
        return ""
    rows = [HEAD, *(lines[key] for key in sorted(lines, key=_order))]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    names, *others = zip(*columns, strict=True)
    versions = dict.fromkeys(list_versions(one.document["versions"]) for one in results)
    return f"{'; '.join(versions)}:\n\n{render_table(names, others)}"


def _list_lines(results: HostResults) -> Iterator[tuple[_Key, Sequence[str]]]:
    contests: dict[tuple[Condition, Memory], list[Contest]] = {}
    for one in list_contests(results.rows):
        contests.setdefault((one.ours.condition, one.ours.memory), []).append(one)
    for (condition, memory), found in contests.items():
        cells = (results.machine, condition, MEMORY_NAMES[memory], *_list_cells(found))
        yield (results.hardware, condition, memory), cells


def _order(key: _Key) -> tuple[object, ...]:
    machine, condition, memory = key
    return "," in machine, machine, CONDITIONS.index(condition), MEMORIES.index(memory)


def _list_cells(contests: Sequence[Contest]) -> Iterable[str]:
    limits = [one.ours.limit_share for one in contests if one.ours.limit_share is not None]
    yield str(len(contests))
    yield show(statistics.median(limits) if limits else None, ".0%")
    for name in PEERS.values():
        speeds = [one.rows[name].seconds / one.ours.seconds for one in contests if name in one.rows]
        yield show(statistics.geometric_mean(speeds) if speeds else None)
    yield show(statistics.geometric_mean(1 / one.ratio for one in contests))
    yield show(min(1 / one.ratio for one in contests))
    yield str(sum(one.ratio > 1 for one in contests))


def render_regret(results: Sequence[HostResults]) -> str:
    """A line for each machine and condition: the time at the model's F over that at the best F."""
    lines = []
    for one in results:
        kinds: dict[tuple[Memory, Condition], list[float]] = {}
        for row in one.regret:
            kinds.setdefault((row.memory, row.condition), []).append(row.regret)
        for (memory, condition), regrets in kinds.items():
            high = sorted(regrets)[math.ceil(0.95 * len(regrets)) - 1]
            lines.append(
                f"- {one.machine}, {MEMORY_NAMES[memory]}, {condition}: "
                f"{statistics.median_low(regrets):.3f} in the median of {len(regrets)} sweeps, "
                f"{high:.3f} at the 95th percentile, {max(regrets):.2f} at worst."
            )
    return "\n".join(lines)


def plot_limit_shown() -> Plot:
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
