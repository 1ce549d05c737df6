"""Writes docs/http.md's tables from results/http-<machine>.json.

Run `make figures`, or `python -m benchmarks.http.tables`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.common.shapes import DTYPES
from benchmarks.common.tables import (
    RESULTS,
    ROOT,
    fill_sections,
    render_columns,
    render_table,
    show,
    write_page,
)
from benchmarks.http.baselines.baseline import Name
from benchmarks.http.judged import Figure, Judgement, judge
from benchmarks.http.rows import HttpResults, Row, read_http_results

PAGE: Final = ROOT / "docs" / "http.md"
NOT_MEASURED: Final = "Not measured yet: there is no results/http-<machine>.json."


def main() -> None:
    """Fill the page."""
    write_page(PAGE, lambda text: fill_page(text, read_http_results(RESULTS)))


def fill_page(text: str, results: Sequence[HttpResults]) -> str:
    """The page with all tables as the results have them."""
    sections = {f"http-{name}": render for name, render in SECTIONS.items()}
    return fill_sections(text, sections, results, none=NOT_MEASURED)


def render_bounds(results: HttpResults) -> str:
    """Bounds, and the figures that were measured."""
    met = {True: "yes", False: "**no**", None: "not measured"}

    def show_worst(tell: Callable[[Judgement, Figure], str]) -> Callable[[Judgement], str]:
        return lambda one: tell(one, one.worst) if one.worst else ""

    columns: dict[str, Callable[[Judgement], str]] = {
        "bound": lambda one: one.what,
        "holds at": show_worst(lambda one, _: f"{one.met} of {len(one.figures)}"),
        "worst case": show_worst(lambda _, worst: worst.where),
        "asked": show_worst(lambda one, x: f"{'≥' if one.at_least else '≤'} {_show(x.asked)}"),
        "found": show_worst(lambda _, worst: _show(worst.found)),
        "met": lambda one: met[one.holds],
    }
    return render_columns(columns, judge(results))


def render_products(results: HttpResults) -> str:
    """For each element type: medians of all baselines, by number of clients and size."""
    there = [x for x in Name if any(row.baseline == x for row in results.rows)]
    tables = []
    for dtype in DTYPES:
        lines = []
        for case in results.list_cases("product"):
            if case.dtype == dtype:
                rows = results.find_case(case)
                cells = (_show_ms(_find_seconds(rows[x])) if x in rows else "" for x in there)
                lines.append([str(case.clients), f"{case.size}²", *cells])
        if lines:
            tables.append(render_table((f"{dtype}, clients", "size", *there), lines))
    return "\n\n".join(tables)


def _find_seconds(row: Row) -> float:
    """The median; of a floor, the floor."""
    if row.baseline in {Name.FLOOR, Name.FLOOR_UNIX} and row.floor_seconds is not None:
        return row.floor_seconds
    return row.p50_seconds


def render_rates(results: HttpResults) -> str:
    """Requests a second and percentiles at 64², by number of clients."""
    rows = (
        row
        for case in results.list_cases("product")
        for row in results.find_case(case).values()
        if case.size == 64 and case.dtype == "float32" and row.baseline != Name.EXECUTOR
    )
    return render_columns(RATES, rows)


def render_transfers(results: HttpResults) -> str:
    """GB/s of a large matrix, in and out."""
    cases = (*results.list_cases("upload"), *results.list_cases("download"))
    rows = (row for case in cases for row in results.find_case(case).values())
    return render_columns(TRANSFERS, rows)


def render_jobs(results: HttpResults) -> str:
    """Jobs, and the product and the disk that bound them."""
    kinds = {"job", "job-memory", "split"}
    rows = (row for row in results.rows if row.what in kinds and row.baseline != Name.EXECUTOR)
    return render_columns(JOBS, rows)


def render_absent(results: HttpResults) -> str:
    """Baselines that do not run there, and cases that were not measured."""
    return "\n".join(f"- {line}" for line in results.absent) or "Nothing is missing."


Columns = dict[str, Callable[[Row], str]]

RATES: Final[Columns] = {
    "clients": lambda row: str(row.clients),
    "size": lambda row: f"{row.size}²",
    "type": lambda row: row.dtype,
    "baseline": lambda row: row.baseline,
    "a second": lambda row: _show(row.rate),
    "p50": lambda row: _show_ms(row.p50_seconds),
    "p95": lambda row: _show_ms(row.p95_seconds),
    "p99": lambda row: _show_ms(row.p99_seconds),
    "refused": lambda row: str(row.refused),
    "client, µs a request": lambda row: (
        "" if row.client_share is None else _show(1e6 * row.client_share / row.rate)
    ),
}
TRANSFERS: Final[Columns] = {
    "way": lambda row: row.what,
    "MiB": lambda row: f"{_count_bytes(row) / 2**20:g}",
    "": lambda row: row.baseline,
    "GB/s": lambda row: show(_count_bytes(row) / row.p50_seconds / 1e9),
    "own memory's growth, MiB": lambda row: (
        "" if row.own_bytes is None else f"{row.own_bytes / 2**20:.1f}"
    ),
}
JOBS: Final[Columns] = {
    "job": lambda row: f"{row.what}, {row.baseline}",
    "size": lambda row: str(row.size),
    "type": lambda row: row.dtype,
    "accepted to done": lambda row: _show_ms(row.p50_seconds),
    "by its own clock": lambda row: _show_ms(row.server_seconds),
    "product": lambda row: _show_ms(row.executor_seconds or row.floor_seconds),
    "disk": lambda row: _show_ms(row.disk_seconds),
    "F": lambda row: f"{row.f} → {row.f_actual}",
    "by": lambda row: row.note or "",
}
SECTIONS: Final[dict[str, Callable[[HttpResults], str]]] = {
    "bounds": render_bounds,
    "products": render_products,
    "rates": render_rates,
    "transfers": render_transfers,
    "jobs": render_jobs,
    "absent": render_absent,
}


def _count_bytes(row: Row) -> int:
    return 4 * int(row.size) ** 2


def _show_ms(seconds: float | None) -> str:
    return "" if seconds is None else _show(seconds * 1e3)


def _show(figure: float) -> str:
    """Three digits, or all before the point."""
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


if __name__ == "__main__":
    main()
