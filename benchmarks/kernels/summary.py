"""Geometric means of the kernels' ratios to cuBLAS, over the products of the suite."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks.common.shapes import Shape, make_cube
from benchmarks.kernels.rows import Row
from benchmarks.kernels.suite import SQUARES, SUITE, TAIL_HEAVY

Ratios = Mapping[Shape, float]
"""Speed over cuBLAS's, by product."""

CLASSES: Final = {"strict": ("strict",), "own": ("strict", "library", "float32", "float64")}
"""Classes of accuracy in which the best entry is looked for, cuBLAS aside: strict, and any."""


def find_mean(ratios: Ratios, shapes: Sequence[Shape]) -> float | None:
    """Geometric mean over some products; None unless all of them were measured."""
    if any(shape not in ratios for shape in shapes):
        return None
    return statistics.geometric_mean(ratios[shape] for shape in shapes)


def list_ratios(rows: Iterable[Row]) -> dict[tuple[str, str, str], dict[Shape, float]]:
    """Ratios of each kernel, in the order of the rows, without those held to some SMs."""
    ratios: dict[tuple[str, str, str], dict[Shape, float]] = {}
    for row in rows:
        if not row.is_held and row.ratio_to_cublas is not None:
            ratios.setdefault(row.entry, {})[row.shape] = row.ratio_to_cublas
    return ratios


def find_best(rows: Iterable[Row], dtype: str, accuracies: Sequence[str]) -> dict[Shape, Row]:
    """The fastest row of each product, with one of these accuracies, except cuBLAS's."""
    best: dict[Shape, Row] = {}
    for row in rows:
        if row.is_held or row.dtype != dtype or row.kernel == "cublas":
            continue
        if row.accuracy not in accuracies:
            continue
        if row.shape not in best or row.tflops > best[row.shape].tflops:
            best[row.shape] = row
    return best


def list_best_ratios(rows: Iterable[Row], dtype: str, accuracies: Sequence[str]) -> Ratios:
    """Ratio of the fastest entry of each product."""
    best = find_best(rows, dtype, accuracies)
    return {x: row.ratio_to_cublas for x, row in best.items() if row.ratio_to_cublas is not None}


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """JSON-ready: the products, the means of each kernel, and those of each product's best."""
    named = ("kernel", "tile", "dtype")
    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    return {
        "suite": SUITE,
        "tail_heavy": TAIL_HEAVY,
        "entries": [
            dict(zip(named, entry, strict=True)) | _find_means(ratios)
            for entry, ratios in list_ratios(rows).items()
        ],
        "best": [
            {"dtype": dtype, "of": name} | _find_means(list_best_ratios(rows, dtype, accuracies))
            for dtype in dtypes
            for name, accuracies in CLASSES.items()
        ],
    }


def format_summary(summary: Mapping[str, Any]) -> str:
    """A line for each mean."""
    lines = []
    for means in (*summary["entries"], *summary["best"]):
        name = means.get("kernel", f"best of {means.get('of')}")
        label = f"{name} {means.get('tile', '')} {means['dtype']}".replace("  ", " ")
        shown = [f"{part} {_show(means[part])}" for part in ("suite", "tail_heavy")]
        shown += [f"{size}³ {_show(ratio)}" for size, ratio in means["squares"].items()]
        if any(means[part] is not None for part in ("suite", "tail_heavy")) or means["squares"]:
            lines.append(f"{label:<32} {', '.join(shown)}")
    return "\n".join(lines)


def _find_means(ratios: Ratios) -> dict[str, Any]:
    squares = {size: make_cube(size) for size in SQUARES}
    return {
        "suite": find_mean(ratios, SUITE),
        "tail_heavy": find_mean(ratios, TAIL_HEAVY),
        "squares": {str(size): ratios[x] for size, x in squares.items() if x in ratios},
    }


def _show(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.3f}"
