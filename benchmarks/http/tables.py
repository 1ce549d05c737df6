"""Writes the figures over HTTP into docs/performance.md, from results/http-<machine>.json.

Run `make figures`, or `python -m benchmarks.http.tables`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benchmarks.common.tables import RESULTS, ROOT, fill_section, render_table, show, write_page
from benchmarks.http.baselines.baseline import Name
from benchmarks.http.rows import Case, HttpResults, Row, read_http_results
from benchmarks.http.transfers import SINK

PAGE: Final = ROOT / "docs" / "performance.md"
NOT_MEASURED: Final = "Not measured yet: there is no results/http-<machine>.json."

SIZES: Final = (64, 256, 1024)
"""Sizes that are shown beside the largest one of each machine."""

DTYPE: Final = "float32"
CLIENTS: Final = 16

COLUMNS: Final = {
    Name.FLOOR: "floor",
    Name.OURS: "wavetrim",
    Name.OURS_LEASE: "through a lease",
    Name.NUMPY: "FastAPI, NumPy",
    Name.CUPY: "FastAPI, CuPy",
    Name.PYTRITON: "PyTriton",
}
HEAD: Final = (
    *("machine", "size", *COLUMNS.values()),
    *(f"{CLIENTS} clients, a second: wavetrim", "FastAPI, NumPy"),
)


def main() -> None:
    """Fill the page."""
    write_page(PAGE, lambda text: fill_page(text, read_http_results(RESULTS)))


def fill_page(text: str, results: Sequence[HttpResults]) -> str:
    """The page with the table of products, and with transfers and jobs."""
    text = fill_section(text, "http-products", render_products(results) or NOT_MEASURED)
    return fill_section(text, "http-bytes", render_bytes(results) or NOT_MEASURED)


def render_products(results: Sequence[HttpResults]) -> str:
    """Medians of one client in milliseconds, and answers a second of several."""
    lines = []
    for one in results:
        sizes = [case.size for case in one.list_cases("product") if _is_shown(case)]
        for size in sorted({*SIZES, *sizes[-1:]} & {*sizes}, key=int):
            alone, crowd = (
                one.find_case(Case("product", size, DTYPE, clients)) for clients in (1, CLIENTS)
            )
            times = (_show_ms(_find_seconds(alone[x])) if x in alone else "" for x in COLUMNS)
            rates = (f"{crowd[x].rate:.0f}" if x in crowd else "" for x in (Name.OURS, Name.NUMPY))
            lines.append([name_machine(one), f"{size}²", *times, *rates])
    return render_table(HEAD, lines) if lines else ""


def _is_shown(case: Case) -> bool:
    return (case.dtype, case.clients) == (DTYPE, 1)


def name_machine(results: HttpResults) -> str:
    """GPU, cores and commit: "H100, 16 cores (ce5bef5)"."""
    hardware = results.document["hardware"]
    gpu = f"{results.name.upper()}, " if hardware["gpu"] else ""
    return f"{gpu}{hardware['cores']} cores ({results.document['commit']})"


def render_bytes(results: Sequence[HttpResults]) -> str:
    """A line for each machine: rates of a large matrix, and seconds of the largest job."""
    lines = (", ".join(_list_parts(one)) for one in results)
    named = zip(map(name_machine, results), lines, strict=True)
    return "\n".join(f"- {name}: {line}." for name, line in named if line)


def _list_parts(results: HttpResults) -> Iterator[str]:
    for way in ("upload", "download"):
        for case in results.list_cases(way):
            rows = results.find_case(case)
            ours, sink = (_show_rate(rows[name]) for name in (Name.OURS, SINK))
            yield f"{way} {ours} GB/s (bare server {sink})"
    kinds: dict[str, Callable[[Row], str]] = {
        "job": lambda row: (
            f"a job of {row.size}² {_show_ms(row.p50_seconds)} ms"
            f" (the product by itself {_show_ms(row.executor_seconds)})"
        ),
        "job-memory": lambda row: f"{_show_ms(row.p50_seconds)} with its result in memory",
    }
    for what, describe in kinds.items():
        for case in [x for x in results.list_cases(what) if x.dtype == DTYPE][-1:]:
            yield describe(results.find_case(case)[Name.OURS])


def _show_rate(row: Row) -> str:
    return show(4 * int(row.size) ** 2 / row.p50_seconds / 1e9)


def _find_seconds(row: Row) -> float:
    """The median; of a floor, the floor."""
    if row.baseline == Name.FLOOR and row.floor_seconds is not None:
        return row.floor_seconds
    return row.p50_seconds


def _show_ms(seconds: float | None) -> str:
    """Milliseconds: three digits, or all before the point."""
    if seconds is None:
        return ""
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"


if __name__ == "__main__":
    main()
