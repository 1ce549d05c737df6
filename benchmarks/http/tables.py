"""Writes the figures over HTTP into docs/performance.md, from results/http-<machine>.json.

Run `make figures`, or `python -m benchmarks.http.tables`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.common.tables import RESULTS, ROOT, fill_section, render_table, write_page
from benchmarks.http.baselines import CUPY, NUMPY, OURS, OURS_LEASE
from benchmarks.http.rows import Case, HttpResults, read_http_results

PAGE: Final = ROOT / "docs" / "performance.md"
NOT_MEASURED: Final = "Not measured yet: there is no results/http-<machine>.json."

SIZES: Final = (64, 256, 1024)
"""Sizes that are shown beside the largest one of each machine."""

DTYPE: Final = "float32"
CLIENTS: Final = 16

COLUMNS: Final = {
    OURS: "wavetrim",
    OURS_LEASE: "through a lease",
    NUMPY: "FastAPI, NumPy",
    CUPY: "FastAPI, CuPy",
}
HEAD: Final = (
    *("machine", "size", *COLUMNS.values()),
    *(f"{CLIENTS} clients, a second: wavetrim", "FastAPI, NumPy"),
)


def main() -> None:
    """Fill the page."""
    write_page(PAGE, lambda text: fill_page(text, read_http_results(RESULTS)))


def fill_page(text: str, results: Sequence[HttpResults]) -> str:
    """The page with the table of products, and with jobs."""
    text = fill_section(text, "http-products", render_products(results) or NOT_MEASURED)
    return fill_section(text, "http-jobs", render_jobs(results) or NOT_MEASURED)


def render_products(results: Sequence[HttpResults]) -> str:
    """Medians of one client in milliseconds, and answers a second of several."""
    lines = []
    for one in results:
        sizes = [case.size for case in one.list_cases("product") if _is_shown(case)]
        for size in sorted({*SIZES, *sizes[-1:]} & {*sizes}):
            alone, crowd = (
                one.find_case(Case("product", size, DTYPE, clients)) for clients in (1, CLIENTS)
            )
            times = (_show_ms(alone[x].p50_seconds) if x in alone else "" for x in COLUMNS)
            rates = (f"{crowd[x].rate:.0f}" if x in crowd else "" for x in (OURS, NUMPY))
            lines.append([one.machine, f"{size}²", *times, *rates])
    return render_table(HEAD, lines) if lines else ""


def _is_shown(case: Case) -> bool:
    return (case.dtype, case.clients) == (DTYPE, 1)


def render_jobs(results: Sequence[HttpResults]) -> str:
    """A line for each machine: the time of its largest job."""
    lines = (", ".join(_list_parts(one)) for one in results)
    named = zip(results, lines, strict=True)
    return "\n".join(f"- {one.machine}: {line}." for one, line in named if line)


def _list_parts(results: HttpResults) -> Iterator[str]:
    for what, told in (("job", "a job of {}² takes {} ms"), ("job-memory", "{1} in memory")):
        for case in [x for x in results.list_cases(what) if x.dtype == DTYPE][-1:]:
            row = results.find_case(case)[OURS]
            yield told.format(row.size, _show_ms(row.p50_seconds))


def _show_ms(seconds: float) -> str:
    """Milliseconds: three digits, or all before the point."""
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"


if __name__ == "__main__":
    main()
