"""Writes docs/http.md's tables from results/http-<machine>.json.

Run `make figures`, or `python -m benchmarks.http.tables`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.common.shapes import DTYPES
from benchmarks.common.tables import RESULTS, ROOT, fill_sections, render_table, show, write_page
from benchmarks.http.baselines.baseline import Name
from benchmarks.http.judged import Judgement, judge
from benchmarks.http.rows import HttpResults, Row, read_http_results

PAGE: Final = ROOT / "docs" / "http.md"
NOT_MEASURED: Final = "Not measured yet: there is no results/http-<machine>.json."
BASELINES: Final = (
    *(
        Name.FLOOR,
        Name.OURS,
        Name.FLOOR_UNIX,
        Name.OURS_CLIENT,
        Name.OURS_UNIX,
        Name.EXECUTOR,
        Name.OURS_LEASE,
        Name.OURS_NEW_LEASE,
    ),
    *(Name.NUMPY, Name.CUPY, Name.PYTRITON),
)


def main() -> None:
    """Fill the page."""
    write_page(PAGE, lambda text: fill_page(text, read_http_results(RESULTS)))


def fill_page(text: str, results: Sequence[HttpResults]) -> str:
    """The page with all tables as the results have them."""
    sections = {f"http-{name}": render for name, render in SECTIONS.items()}
    return fill_sections(text, sections, results, none=NOT_MEASURED)


def render_bounds(results: HttpResults) -> str:
    """What is asked, and what was found."""
    head = ("bound", "holds at", "worst case", "asked", "found", "met")
    return render_table(head, map(_list_judgement, judge(results)))


def _list_judgement(judgement: Judgement) -> list[str]:
    worst = judgement.worst
    if worst is None:
        return [judgement.what, "", "", "", "", "not measured"]
    sign = "≥" if judgement.at_least else "≤"
    return [
        judgement.what,
        f"{judgement.met} of {len(judgement.figures)}",
        worst.where,
        f"{sign} {_show(worst.asked)}",
        _show(worst.found),
        "yes" if judgement.holds else "**no**",
    ]


def render_products(results: HttpResults) -> str:
    """For each element type: medians of all baselines, by number of clients and size."""
    there = [x for x in BASELINES if any(row.baseline == x for row in results.rows)]
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
    """Requests a second, and percentiles, where many clients ask."""
    head = ("clients", "size", "type", "baseline", "a second", "p50", "p95", "p99", "refused",
            "client, µs a request")  # fmt: skip
    lines = [
        [
            str(row.clients),
            f"{row.size}²",
            row.dtype,
            row.baseline,
            _show(row.rate),
            *map(_show_ms, (row.p50_seconds, row.p95_seconds, row.p99_seconds)),
            str(row.refused),
            "" if row.client_share is None else _show(1e6 * row.client_share / row.rate),
        ]
        for case in results.list_cases("product")
        for row in results.find_case(case).values()
        if case.size == 64 and case.dtype == "float32" and row.baseline != Name.EXECUTOR
    ]
    return render_table(head, lines) if lines else ""


def render_transfers(results: HttpResults) -> str:
    """GB/s of a large matrix, in and out."""
    lines = []
    for case in (*results.list_cases("upload"), *results.list_cases("download")):
        for row in results.find_case(case).values():
            size_bytes = 4 * int(case.size) ** 2
            own = show(None if row.own_bytes is None else row.own_bytes / 2**20, ".1f")
            rate = show(size_bytes / row.p50_seconds / 1e9)
            lines.append([case.what, f"{size_bytes / 2**20:g}", row.baseline, rate, own])
    head = ("way", "MiB", "", "GB/s", "own memory's growth, MiB")
    return render_table(head, lines) if lines else ""


def render_jobs(results: HttpResults) -> str:
    """Jobs beside what they cannot do without."""
    head = ("job", "size", "type", "accepted to done", "by its own clock", "product", "disk", "F",
            "by")  # fmt: skip
    lines = [
        [
            f"{row.what}, {row.baseline}",
            str(row.size),
            row.dtype,
            _show_ms(row.p50_seconds),
            _show_ms(row.server_seconds),
            _show_ms(row.executor_seconds or row.floor_seconds),
            _show_ms(row.disk_seconds),
            f"{row.f} → {row.f_actual}",
            row.note or "",
        ]
        for row in results.rows
        if row.what in {"job", "job-memory", "split"} and row.baseline != Name.EXECUTOR
    ]
    return render_table(head, lines) if lines else ""


def render_absent(results: HttpResults) -> str:
    """What does not run there, and what was not measured."""
    return "\n".join(f"- {line}" for line in results.absent) or "Nothing is missing."


SECTIONS: Final[dict[str, Callable[[HttpResults], str]]] = {
    "bounds": render_bounds,
    "products": render_products,
    "rates": render_rates,
    "transfers": render_transfers,
    "jobs": render_jobs,
    "absent": render_absent,
}


def _show_ms(seconds: float | None) -> str:
    return "" if seconds is None else _show(seconds * 1e3)


def _show(figure: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


if __name__ == "__main__":
    main()
