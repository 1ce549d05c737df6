"""The rows of benchmarks/results/http-<machine>.json: made from rounds, and read again."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.common.results import read_document, read_rows
from benchmarks.common.turns import find_spread

KINDS: Final = ("product", "job", "job-memory")
"""What is measured; older files have more."""


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """A case at which baselines take turns.

    Attributes:
        what: "product": a request with A and B, answered with A·B. "job": from its accepted POST
            until it has succeeded; "job-memory": the same with a result in memory.
        size: Rows and columns of A, B and C.
        dtype: Element type.
        clients: Clients that call at once.
    """

    what: str
    size: int
    dtype: str
    clients: int

    def __str__(self) -> str:
        """The case in words."""
        some = "client" if self.clients == 1 else "clients"
        return f"{self.what} {self.size}² {self.dtype}, {self.clients} {some}"


@dataclass(frozen=True, slots=True)
class Row(Case):
    """One baseline at one case.

    Attributes:
        baseline: Its name.
        p50_seconds: Median of the rounds' medians.
        rate: Requests answered in a second, median of the rounds.
        spread: Slowest minus fastest round's median, over the median of all.
        rounds: Number of rounds.
        requests: Requests answered.
        refused: Requests refused for now (429, 503).
    """

    baseline: str
    p50_seconds: float
    rate: float
    spread: float
    rounds: int
    requests: int
    refused: int = 0

    @property
    def case(self) -> Case:
        """Its case."""
        return Case(self.what, self.size, self.dtype, self.clients)


def summarize_rounds(
    case: Case,
    baseline: str,
    rounds: Sequence[Sequence[float]],
    *,
    rate: float | None = None,
    refused: int = 0,
) -> Row:
    """The row of some rounds.

    Args:
        case: The case.
        baseline: The baseline.
        rounds: Seconds of each request, round by round.
        rate: Requests answered in a second; by default those of one client.
        refused: Requests refused for now.
    """
    medians = [statistics.median(seconds) for seconds in rounds]
    median = statistics.median(medians)
    return Row(
        **asdict(case),
        baseline=baseline,
        p50_seconds=median,
        rate=1 / median if rate is None else rate,
        spread=find_spread(medians, median),
        rounds=len(rounds),
        requests=sum(map(len, rounds)),
        refused=refused,
    )


def describe_row(row: Row) -> str:
    """A line about a row."""
    refused = f", {row.refused} refused" if row.refused else ""
    times = f"{1e3 * row.p50_seconds:.3f} ms, {row.rate:.1f}/s"
    return f"{row.baseline:<15} {row.case}: {times}{refused}"


@dataclass(frozen=True, slots=True)
class HttpResults:
    """A results file.

    Attributes:
        name: "h200" of http-h200.json.
        document: All but rows.
        rows: Its rows.
    """

    name: str
    document: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def machine(self) -> str:
        """GPU, cores and commit: "H100, 16 cores (ce5bef5)"."""
        hardware = self.document["hardware"]
        gpu = f"{self.name.upper()}, " if hardware["gpu"] else ""
        return f"{gpu}{hardware['cores']} cores ({self.document['commit']})"

    def find_case(self, case: Case) -> dict[str, Row]:
        """All rows of a case, by baseline."""
        return {row.baseline: row for row in self.rows if row.case == case}

    def list_cases(self, what: str) -> list[Case]:
        """The cases of a kind that were measured, in order."""
        found = {row.case for row in self.rows if row.what == what}
        return sorted(found, key=lambda x: (x.dtype, x.clients, x.size))


def read_http_file(file: Path) -> HttpResults:
    """Read one http-<machine>.json.

    Raises:
        ResultsError: It is no JSON, or lacks something.
        OSError: It cannot be read.
    """
    with read_document(file, "make bench-http") as document:
        known = [row for row in document.pop("rows") if row["what"] in KINDS]
        results = HttpResults(file.stem.removeprefix("http-"), document, read_rows(Row, known))
        if not (known and results.machine):
            raise ValueError("it has no rows")
    return results


def read_http_results(folder: Path) -> list[HttpResults]:
    """Every http-<machine>.json of a folder, by name; none if none was written."""
    return [read_http_file(file) for file in sorted(folder.glob("http-*.json"))]
