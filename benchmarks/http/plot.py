"""Draws docs/http-<gpu>.png from results/http-<gpu>.json: milliseconds over size.

Run `make figures`, or `python -m benchmarks.http.plot`; it needs matplotlib.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common.plots import DOCS, Plot, write_plots
from benchmarks.common.tables import RESULTS, SHOWN
from benchmarks.http.baselines import CUPY, NUMPY, OURS, OURS_LEASE
from benchmarks.http.rows import HttpResults, read_http_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Lines = dict[str, list[tuple[int, float]]]
"""Sizes and milliseconds of one client's requests, by baseline."""

DRAWN_DTYPE: Final = "float32"
_STYLES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    OURS: ("wavetrim over TCP", {"color": "#d55e00", "marker": "D", "ms": 5}),
    OURS_LEASE: ("wavetrim through a lease", {"color": "#e69f00", "marker": "s", "ms": 4}),
    NUMPY: ("FastAPI + NumPy, 8 lines", {"color": "#0072b2", "marker": ".", "ms": 7}),
    CUPY: ("FastAPI + CuPy, 20 lines", {"color": "#009e73", "marker": ".", "ms": 7}),
}


def main() -> None:
    """Draw it."""
    write_plots(lambda: [plot_shown()])


def plot_shown() -> Plot:
    """The plot that the documents show."""
    return plot_products(read_http_file(RESULTS / f"http-{SHOWN}.json"))


def plot_products(results: HttpResults) -> Plot:
    """Milliseconds over size, a line for each baseline."""
    lines, gpu = pick_lines(results), results.document["hardware"]["gpu"]
    title = f"A product in one request, {DRAWN_DTYPE}, one client, {gpu}"
    title += f"\ncommit {results.document['commit']}"
    file, draw = DOCS / f"http-{results.name}.png", partial(_draw, lines=lines, title=title)
    return Plot(file, [results.caption, lines], (7.2, 4.4), 130, draw)


def pick_lines(results: HttpResults) -> Lines:
    """The lines to draw."""
    lines: Lines = {}
    for row in results.rows:
        drawn = (row.what, row.clients, row.dtype) == ("product", 1, DRAWN_DTYPE)
        if drawn and row.baseline in _STYLES:
            lines.setdefault(row.baseline, []).append((row.size, 1e3 * row.p50_seconds))
    return {name: sorted(lines[name]) for name in _STYLES if name in lines}


def _draw(figure: "Figure", lines: Lines, title: str) -> None:
    axes = figure.subplots()
    for name, points in lines.items():
        label, style = _STYLES[name]
        sizes, milliseconds = zip(*points, strict=True)
        axes.plot(sizes, milliseconds, label=label, **{"lw": 1.0, **style})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    drawn = sorted({size for points in lines.values() for size, _ in points})
    axes.set_xticks(drawn, [f"{size}²" for size in drawn])
    axes.minorticks_off()
    axes.set_ylabel("milliseconds, median")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(title, fontsize=10)


if __name__ == "__main__":
    main()
