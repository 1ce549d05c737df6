"""Draws docs/ladder-<gpu>.png: the rungs, from the simplest kernel to cuBLAS, with their speed.

Run `make figures`, or `python -m benchmarks.kernels.ladder`; it reads
benchmarks/results/kernels-<gpu>.json and needs matplotlib. The same figures give the same file,
which names them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.common.plots import digest, save_plot
from benchmarks.common.results import ResultsError
from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.kernels.measured import Results, Row, read_all_results
from benchmarks.kernels.suite import SQUARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS: Final = ROOT / "docs"
DTYPES: Final = ("float32", "float64")
RUNGS: Final = ("naive", "simple", "coalesced", "shared", "register", "bulk", "tensor", "cublas")
_COLOURS: Final = ("#56b4e9", "#0072b2", "#003a5d")
_BAR_WIDTH: Final = 0.27
_INCHES: Final = (8.0, 3.9)
_DOTS_PER_INCH: Final = 160


def main() -> int:
    """Draws a plot for each results file."""
    try:
        results = read_all_results(RESULTS)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 1
    for one in results:
        find_plot(one).write_bytes(draw_ladder(one))
    return 0


def find_plot(results: Results) -> Path:
    """Where the plot of a results file stands."""
    return DOCS / f"ladder-{results.name}.png"


def pick_rungs(rows: Sequence[Row], dtype: str) -> dict[str, dict[int, Row]]:
    """Of each rung the fastest tile at each square, from the lowest rung to cuBLAS."""
    rungs: dict[str, dict[int, Row]] = {}
    for name in RUNGS:
        for row in rows:
            if row.is_held or (row.kernel, row.dtype) != (name, dtype):
                continue
            if row.m == row.n == row.k and row.m in SQUARES:
                best = rungs.setdefault(name, {})
                if row.m not in best or row.tflops > best[row.m].tflops:
                    best[row.m] = row
    return rungs


def digest_figures(results: Results) -> str:
    """Names what is drawn, so that a plot of other figures is told from it."""
    drawn = [
        (name, size, row.dtype, row.tflops, row.ratio_to_cublas)
        for dtype in DTYPES
        for name, sizes in pick_rungs(results.rows, dtype).items()
        for size, row in sizes.items()
    ]
    return digest([results.caption, drawn])


def draw_ladder(results: Results) -> bytes:
    """The plot as PNG: a panel for each element type, bars of TFLOP/s for each rung."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    figure.suptitle(f"C = A·B on an {results.document['hardware']['gpu']}", fontsize=11)
    for axes, dtype in zip(figure.subplots(1, len(DTYPES)), DTYPES, strict=True):
        _draw_panel(axes, dtype, pick_rungs(results.rows, dtype))
    return save_plot(figure, digest_figures(results))


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
        ratios = [row.ratio_to_cublas for row in sizes.values() if row.ratio_to_cublas is not None]
        text += f"\n{min(ratios):.2f}×" if ratios else ""
        axes.text(at, top + 0.01 * highest, text, ha="center", va="bottom", fontsize=8)
    axes.set_title(f"{dtype}: TFLOP/s (the most), times cuBLAS (the least)", fontsize=9)
    axes.set_xticks(range(len(rungs)), list(rungs), fontsize=9, rotation=30)
    axes.tick_params(axis="y", labelsize=9)
    axes.set_ylim(0, 1.17 * highest)
    axes.set_xlim(-0.6, len(rungs) - 0.4)
    axes.grid(axis="y", alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="upper left", frameon=False)


if __name__ == "__main__":
    sys.exit(main())
