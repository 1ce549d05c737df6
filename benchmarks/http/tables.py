"""The table of products over HTTP."""

from collections.abc import Sequence
from typing import Final

from benchmarks.common.results import Results
from benchmarks.common.tables import render_table
from benchmarks.http.baselines import CUPY, NUMPY, OURS, OURS_LEASE
from benchmarks.http.rows import DTYPE, Case, Row, find_case

SIZES: Final = (64, 256, 1024)
"""Sizes that are shown, in addition to the largest one of each machine."""

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


def render_products(results: Sequence[Results[Row]]) -> str:
    """Medians of one client in milliseconds, and answers a second of several."""
    lines = []
    for one in results:
        measured = {row.size for row in one.rows if row.case == Case(row.size, DTYPE, 1)}
        for size in sorted({*SIZES, max(measured, default=0)} & measured):
            alone, crowd = (find_case(one, Case(size, DTYPE, some)) for some in (1, CLIENTS))
            times = (_show_ms(alone[x].p50_seconds) if x in alone else "" for x in COLUMNS)
            rates = (f"{crowd[x].rate:.0f}" if x in crowd else "" for x in (OURS, NUMPY))
            lines.append([one.machine, f"{size}²", *times, *rates])
    return render_table(HEAD, lines) if lines else ""


def _show_ms(seconds: float) -> str:
    """Milliseconds: three digits, or all before the point."""
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"
