"""Draws docs/http-<machine>.png from results/http-<machine>.json: milliseconds over size.

Run `make figures`, or `python -m benchmarks.http.plot`; it needs matplotlib. The same figures give
the same file, which names them.
"""

import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.common.plots import digest, save_plot
from benchmarks.common.results import ResultsError
from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.http.baselines.baseline import CUPY, FLOOR, NUMPY, OURS, OURS_LEASE, PYTRITON
from benchmarks.http.rows import HttpResults, read_all_http_results

DOCS: Final = ROOT / "docs"
DRAWN_DTYPE: Final = "float32"
_STYLES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    FLOOR: ("floor: bare sockets + executor", {"color": "black", "ls": "--", "lw": 1.2}),
    OURS: ("wavetrim over TCP", {"color": "#d55e00", "marker": "D", "ms": 5}),
    OURS_LEASE: ("wavetrim through a lease", {"color": "#e69f00", "marker": "s", "ms": 4}),
    NUMPY: ("FastAPI + NumPy, 8 lines", {"color": "#0072b2", "marker": ".", "ms": 7}),
    CUPY: ("FastAPI + CuPy, 20 lines", {"color": "#009e73", "marker": ".", "ms": 7}),
    PYTRITON: ("PyTriton", {"color": "#cc79a7", "marker": ".", "ms": 7}),
}
_DOTS_PER_INCH: Final = 130


def main() -> int:
    """Draws the plot of each results file."""
    try:
        results = read_all_http_results(RESULTS)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 1
    for one in results:
        if pick_lines(one):
            find_plot(one).write_bytes(draw_sizes(one))
    return 0


def find_plot(results: HttpResults) -> Path:
    """Where the plot of a results file stands."""
    return DOCS / f"http-{results.name}.png"


def pick_lines(results: HttpResults) -> dict[str, list[tuple[int, float]]]:
    """What is drawn: sizes and milliseconds of one client's requests, by baseline."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in results.rows:
        drawn = (row.what, row.clients, row.dtype) == ("product", 1, DRAWN_DTYPE)
        if not drawn or row.baseline not in _STYLES or isinstance(row.size, str):
            continue
        seconds = row.floor_seconds if row.baseline == FLOOR else row.p50_seconds
        if seconds is not None:
            lines.setdefault(row.baseline, []).append((row.size, 1e3 * seconds))
    return {name: sorted(lines[name]) for name in _STYLES if name in lines}


def digest_figures(results: HttpResults) -> str:
    """Names what the plot shows, so that one of other figures is told from it."""
    return digest([results.caption, pick_lines(results)])


def draw_sizes(results: HttpResults) -> bytes:
    """Milliseconds over size, one line a baseline, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), dpi=_DOTS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    lines = pick_lines(results)
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
    hardware = results.document["hardware"]
    machine = hardware["gpu"] or f"{hardware['cores']} cores, no GPU"
    title = f"A product in one request, {DRAWN_DTYPE}, one client, {machine}"
    axes.set_title(f"{title}\ncommit {results.document['commit']}", fontsize=10)
    return save_plot(figure, digest_figures(results))


if __name__ == "__main__":
    sys.exit(main())
