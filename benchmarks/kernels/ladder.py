"""Speed of the kernels, from the simplest one to cuBLAS: docs/ladder-<gpu>.png, and a table."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.common.plots import DOCS, Plot
from benchmarks.common.results import Results
from benchmarks.common.tables import RESULTS, SHOWN, render_table
from benchmarks.kernels.contest import KERNEL_DTYPES, SQUARES
from benchmarks.kernels.rows import Row, describe, read_kernel_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNGS: Final = ("naive", "simple", "coalesced", "shared", "register", "bulk", "tensor", "cublas")
SIZE: Final = 4096
"""A square at which every kernel is measured; the table shows it."""

_COLOURS: Final = ("#56b4e9", "#0072b2", "#003a5d")
_BAR_WIDTH: Final = 0.27


def plot_shown() -> Plot:
    """The plot that the documents show."""
    return plot_ladder(read_kernel_results(RESULTS, SHOWN)[0])


def plot_ladder(results: Results[Row]) -> Plot:
    """A panel for each element type, bars of TFLOP/s for each rung."""
    measured = {row.dtype for row in results.rows}
    dtypes: list[str] = [dtype for dtype in KERNEL_DTYPES if dtype in measured]
    panels = {dtype: pick_rungs(results.rows, dtype) for dtype in dtypes}
    drawn = [
        (name, size, row.dtype, row.tflops, row.ratio_to_cublas)
        for rungs in panels.values()
        for name, sizes in rungs.items()
        for size, row in sizes.items()
    ]
    gpu = results.document["hardware"]["gpu"]
    title = f"C = A·B on an {gpu}: TFLOP/s (the most), times cuBLAS (the least)"
    return Plot(
        *(DOCS / f"ladder-{results.gpu}.png", [describe(results), drawn], (8.0, 3.9), 160),
        draw=partial(_draw_ladder, title=title, panels=panels),
    )


def pick_rungs(rows: Sequence[Row], dtype: str) -> dict[str, dict[int, Row]]:
    """The fastest tile of each rung at each square, from the lowest rung to cuBLAS."""
    rungs: dict[str, dict[int, Row]] = {}
    for name in RUNGS:
        for row in rows:
            if (row.kernel, row.dtype) == (name, dtype) and row.is_cube and row.m in SQUARES:
                best = rungs.setdefault(name, {})
                if row.m not in best or row.tflops > best[row.m].tflops:
                    best[row.m] = row
    return rungs


def _draw_ladder(
    figure: "Figure", title: str, panels: dict[str, dict[str, dict[int, Row]]]
) -> None:
    figure.suptitle(title, fontsize=11)
    widths = [2 + len(rungs) for rungs in panels.values()]
    drawn = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    for axes, (dtype, rungs) in zip(drawn, panels.items(), strict=True):
        _draw_panel(axes, dtype, rungs)
    drawn[0].legend(fontsize=8, loc="upper left", frameon=False)  # over the lowest rungs


def _draw_panel(axes: "Axes", dtype: str, rungs: dict[str, dict[int, Row]]) -> None:
    highest = max((row.tflops for sizes in rungs.values() for row in sizes.values()), default=1)
    for size, colour in zip(SQUARES, _COLOURS, strict=True):
        bars = [
            (at + (sorted(sizes).index(size) - (len(sizes) - 1) / 2) * _BAR_WIDTH, sizes[size])
            for at, sizes in enumerate(rungs.values())
            if size in sizes
        ]
        heights = [row.tflops for _, row in bars]
        label = f"M = N = K = {size}"
        axes.bar([x for x, _ in bars], heights, _BAR_WIDTH, color=colour, label=label)
    for at, sizes in enumerate(rungs.values()):
        top = max(row.tflops for row in sizes.values())
        text = f"{top:.0f}" if top >= 10 else f"{top:.1f}"
        text += f"\n{min(row.ratio_to_cublas for row in sizes.values()):.2f}×"
        axes.text(at, top + 0.01 * highest, text, ha="center", va="bottom", fontsize=8)
    axes.set_title(f"{dtype}: TFLOP/s", fontsize=9)
    axes.set_xticks(range(len(rungs)), list(rungs), fontsize=9, rotation=30)
    axes.tick_params(axis="y", labelsize=9)
    axes.set_ylim(0, 1.17 * highest)
    axes.set_xlim(-0.6, len(rungs) - 0.4)
    axes.grid(axis="y", alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def render_speed(results: Results[Row]) -> str:
    """What was measured; TFLOP/s of each kernel's fastest tile, and its speed over cuBLAS's."""
    rungs = {dtype: pick_rungs(results.rows, dtype) for dtype in KERNEL_DTYPES}
    lines = [
        [name, *(_show_speed(of.get(name, {}).get(SIZE)) for of in rungs.values())]
        for name in RUNGS
        if any(name in of for of in rungs.values())
    ]
    table = render_table(("kernel", *rungs), lines)
    return f"{describe(results)}:\n\n{table}"


def _show_speed(row: Row | None) -> str:
    """TFLOP/s, and in brackets the speed over that of cuBLAS."""
    return "" if row is None else f"{row.tflops:.1f} ({row.ratio_to_cublas:.2f})"
