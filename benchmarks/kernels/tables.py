"""Writes docs/kernels.md's tables from results/kernels-<gpu>.json.

Run `make figures`, or `python -m benchmarks.kernels.tables`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from benchmarks.common.results import read_rows
from benchmarks.common.shapes import make_cube, name_shape
from benchmarks.common.tables import (
    RESULTS,
    ROOT,
    fill_sections,
    render_table,
    show,
    write_page,
)
from benchmarks.kernels.rows import Results, Row, read_results
from benchmarks.kernels.suite import ALL_SHAPES, SQUARES, SUITE, TAIL_HEAVY
from benchmarks.kernels.summary import CLASSES, Ratios, find_mean, list_best_ratios, list_ratios
from benchmarks.kernels.tile_choice import TileChoice

PAGE: Final = ROOT / "docs" / "kernels.md"
SIZES: Final = (1024, 2048, *SQUARES)
UPPER: Final = ("register", "bulk", "tensor")
"""Kernels that are shown at every product of the suite."""


def main() -> None:
    """Fill the page."""
    write_page(PAGE, lambda text: fill_page(text, read_results(RESULTS)))


def fill_page(text: str, results: Sequence[Results]) -> str:
    """The page with all tables as the results have them."""
    return fill_sections(text, SECTIONS, results)


def render_speed(results: Results) -> str:
    """TFLOP/s of every kernel at each square, and the share of cuBLAS at the largest."""
    head = ("kernel", "tile", "type", *(f"{size}³" for size in SIZES), "of cuBLAS at the largest")
    lines = []
    for entry in dict.fromkeys(row.entry for row in results.rows):
        sizes = _find_squares(results.rows, entry)
        speeds = (show(sizes[x].tflops if x in sizes else None, ".1f") for x in SIZES)
        if sizes:
            lines.append([*entry, *speeds, show(sizes[max(sizes)].ratio_to_cublas, ".0%")])
    return render_table(head, lines)


def _find_squares(rows: Iterable[Row], entry: tuple[str, str, str]) -> dict[int, Row]:
    """A kernel's rows at square products, by size."""
    return {row.m: row for row in rows if row.entry == entry and row.is_cube and not row.is_held}


def render_suite(results: Results) -> str:
    """Ratios to cuBLAS at every product, in a table for each element type."""
    tables = []
    for dtype in _list_dtypes(results.rows):
        ratios = {
            entry: of
            for entry, of in list_ratios(results.rows).items()
            if entry[0] in UPPER and entry[2] == dtype
        }
        rates = {
            row.shape: row.tflops
            for row in results.rows
            if (row.kernel, row.dtype) == ("cublas", dtype) and not row.is_held
        }
        lines = [
            [name_shape(x), show(rates[x], ".1f"), *(show(of.get(x)) for of in ratios.values())]
            for x in ALL_SHAPES
            if x in rates
        ]
        names = (f"{kernel} {tile}" for kernel, tile, _ in ratios)
        tables.append(render_table((dtype, "cuBLAS, TFLOP/s", *names), lines))
    return "\n\n".join(tables)


def render_means(results: Results) -> str:
    """Geometric means of each kernel, and of the best one for each product; errors and bits."""
    means = ("suite", "tail-heavy", *(f"{size}³" for size in SQUARES))
    head = ("kernel", "type", "accuracy", *means, "most error, of cuBLAS's", "same bits")
    rows = [row for row in results.rows if not row.is_held]
    lines = []
    for entry, ratios in list_ratios(rows).items():
        kernel, tile, dtype = entry
        if kernel in UPPER:
            own = [row for row in rows if row.entry == entry]
            named = [f"{kernel} {tile}", dtype, own[0].accuracy]
            lines.append([*named, *_list_means(ratios), *_list_verdicts(own)])
    for dtype in _list_dtypes(rows):
        for kind, accuracies in CLASSES.items():
            if best := list_best_ratios(rows, dtype, accuracies):
                lines.append([f"best {kind} entry", dtype, "", *_list_means(best), "", ""])
    return render_table(head, lines)


def render_budgets(results: Results) -> str:
    """Rates of kernels held to some multiprocessors, over their share of the full rate."""
    rows = [row for row in results.rows if row.is_held]
    if not rows:
        return ""
    budgets = sorted({row.sms for row in rows})
    head = ("kernel", "type", "TFLOP/s of all", *(f"{sms} of {max(budgets)}" for sms in budgets))
    lines = []
    for entry in dict.fromkeys(row.entry for row in rows):
        held = {row.sms: row for row in rows if row.entry == entry}
        full = held.get(max(budgets))
        shares = (_show_share(held[sms], full) if sms in held else "" for sms in budgets)
        rate = show(full.tflops if full else None, ".1f")
        lines.append([f"{entry[0]} {entry[1]}", entry[2], rate, *shares])
    return render_table(head, lines)


def _show_share(row: Row, full: Row | None) -> str:
    """A share of the full rate; in brackets the share at the clock of the full launch."""
    share = show(row.rate_share)
    if row.rate_share is None or full is None or not row.clock_mhz or not full.clock_mhz:
        return share
    return f"{share} ({show(row.rate_share * full.clock_mhz / row.clock_mhz)})"


def render_power(results: Results) -> str:
    """Clock and power at the squares."""
    rows = [row for row in results.rows if row.clock_mhz is not None and not row.is_held]
    if not rows:
        return ""
    head = ("kernel", "type", *(f"{size}³: {unit}" for size in SQUARES for unit in ("MHz", "W")))
    lines = []
    for entry in dict.fromkeys(row.entry for row in rows if row.kernel in (*UPPER, "cublas")):
        sizes = _find_squares(rows, entry)
        cells = (
            show(getattr(sizes.get(size), name, None), ".0f")
            for size in SQUARES
            for name in ("clock_mhz", "power_watts")
        )
        lines.append([f"{entry[0]} {entry[1]}", entry[2], *cells])
    return render_table(head, lines)


def render_compiled(results: Results) -> str:
    """The compiler's report of each kernel on one architecture."""
    reports: list[dict[str, Any]] = results.document["compiled"]
    head = ("kernel", "tile", "type", "threads", "registers", "spilled bytes", "shared bytes")
    names = ("kernel", "tile", "dtype", "threads", "registers", "spill_bytes", "shared_bytes")
    cells = ([str(report[name]) for name in names] for report in reports)
    return f"For {reports[0]['arch']}:\n\n{render_table(head, cells)}"


def render_choices(results: Results) -> str:
    """Milliseconds with the planner's tile, with nvMatmulHeuristics', and with the fastest one."""
    rows = {(row.entry, row.shape): row for row in results.rows if not row.is_held}
    lines = []
    for choice in read_rows(TileChoice, results.document.get("choices", ())):
        shape, kernel, dtype = (choice.m, choice.n, choice.k), choice.kernel, choice.dtype
        of = {
            tile: row.median_seconds
            for ((name, tile, of_dtype), where), row in rows.items()
            if (name, of_dtype, where) == (kernel, dtype, shape)
        }
        if choice.planned in of:
            tiles = (choice.planned, choice.heuristic, min(of, key=of.__getitem__))
            cells = (f"{x}: {show(of[x] * 1e3, '.3g')}" if x in of else "" for x in tiles)
            lines.append([name_shape(shape), kernel, dtype, *cells])
    head = ("product", "kernel", "type", "planner", "nvMatmulHeuristics", "fastest")
    return render_table(head, lines) if lines else ""


SECTIONS: Final[dict[str, Callable[[Results], str]]] = {
    "speed": render_speed,
    "suite": render_suite,
    "means": render_means,
    "budgets": render_budgets,
    "power": render_power,
    "choices": render_choices,
    "compiled": render_compiled,
}
"""Renders each section of docs/kernels.md."""


def _list_dtypes(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.dtype for row in rows))


def _list_means(ratios: Ratios) -> list[str]:
    squares = (ratios.get(make_cube(size)) for size in SQUARES)
    return [show(x) for x in (find_mean(ratios, SUITE), find_mean(ratios, TAIL_HEAVY), *squares)]


def _list_verdicts(rows: Sequence[Row]) -> list[str]:
    """The largest error over cuBLAS's at the same product; whether bits were the same twice."""
    errors = [
        row.max_relative_error / row.cublas_max_relative_error
        for row in rows
        if row.cublas_max_relative_error
    ]
    told = [row.same_bits for row in rows if row.same_bits is not None]
    bits = "" if not told else "yes" if all(told) else f"no: {told.count(False)} of {len(told)}"
    return [show(max(errors, default=None)), bits]


if __name__ == "__main__":
    main()
