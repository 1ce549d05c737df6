"""The rows of benchmarks/results/http-<machine>.json: made from rounds, read, shown in a table."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.results import Results, read_results
from benchmarks.common.tables import render_table, show_ms
from benchmarks.http.baselines import CUPY, NUMPY, OURS, OURS_LEASE
from benchmarks.http.client import Load

DTYPE: Final = "float32"

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


@dataclass(frozen=True, slots=True)
class Case:
    """A case at which baselines take turns.

    Attributes:
        size: Rows and columns of A, B and C.
        dtype: Element type.
        clients: Clients that call at once.
    """

    size: int
    dtype: str
    clients: int

    def __str__(self) -> str:
        """The case in words."""
        some = "client" if self.clients == 1 else "clients"
        return f"{self.size}² {self.dtype}, {self.clients} {some}"


@dataclass(frozen=True, slots=True)
class Row(Case):
    """One baseline at one case.

    Attributes:
        baseline: Its name.
        p50_seconds: Median of the rounds' medians.
        rate: Requests answered in a second, median of the rounds.
        rounds: Number of rounds.
        requests: Requests answered.
    """

    baseline: str
    p50_seconds: float
    rate: float
    rounds: int
    requests: int

    @property
    def case(self) -> Case:
        """Its case."""
        return Case(self.size, self.dtype, self.clients)

    def __str__(self) -> str:
        times = f"{1e3 * self.p50_seconds:.3f} ms, {self.rate:.1f}/s"
        return f"{self.baseline:<15} {self.case}: {times}"


def summarize_rounds(case: Case, baseline: str, rounds: Sequence[Load]) -> Row:
    """The row of some rounds."""
    return Row(
        **asdict(case),
        baseline=baseline,
        p50_seconds=statistics.median(statistics.median(load.seconds) for load in rounds),
        rate=statistics.median(len(load.seconds) / load.elapsed_seconds for load in rounds),
        rounds=len(rounds),
        requests=sum(len(load.seconds) for load in rounds),
    )


def find_case(results: Results[Row], case: Case) -> dict[str, Row]:
    """All rows of a case, by baseline."""
    return {row.baseline: row for row in results.rows if row.case == case}


def read_http_results(folder: Path) -> list[Results[Row]]:
    """Every http-<machine>.json of a folder, by name; none if none was written."""
    return read_results(folder, "http-*.json", Row, "make bench-http")


def render_products(results: Sequence[Results[Row]]) -> str:
    """Medians of one client in milliseconds, and answers a second of several."""
    lines = []
    for one in results:
        measured = {row.size for row in one.rows if row.case == Case(row.size, DTYPE, 1)}
        for size in sorted({*SIZES, max(measured, default=0)} & measured):
            alone, crowd = (find_case(one, Case(size, DTYPE, some)) for some in (1, CLIENTS))
            times = (show_ms(alone[x].p50_seconds) if x in alone else "" for x in COLUMNS)
            rates = (f"{crowd[x].rate:.0f}" if x in crowd else "" for x in (OURS, NUMPY))
            lines.append([one.machine, f"{size}²", *times, *rates])
    return render_table(HEAD, lines) if lines else ""
