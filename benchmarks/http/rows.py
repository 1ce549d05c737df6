"""The rows of benchmarks/results/http-<machine>.json: made from rounds, and read again."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.results import Results, read_results
from benchmarks.http.client import Load

DTYPE: Final = "float32"


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


def describe_row(row: Row) -> str:
    """A line about a row."""
    times = f"{1e3 * row.p50_seconds:.3f} ms, {row.rate:.1f}/s"
    return f"{row.baseline:<15} {row.case}: {times}"


def find_case(results: Results[Row], case: Case) -> dict[str, Row]:
    """All rows of a case, by baseline."""
    return {row.baseline: row for row in results.rows if row.case == case}


def read_http_results(folder: Path) -> list[Results[Row]]:
    """Every http-<machine>.json of a folder, by name; none if none was written."""
    return read_results(folder, "http-*.json", Row, "make bench-http")
