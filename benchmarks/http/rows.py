"""The rows of benchmarks/results/http-<machine>.json: made from rounds, and read again."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.results import read_document, read_rows
from benchmarks.common.turns import find_spread


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """A case at which baselines take turns.

    Attributes:
        what: "product": a request with A and B, answered with A·B. "upload" and "download": a kept
            matrix. "job": from its accepted POST until it has succeeded; "job-memory": the same
            with a result that is kept in memory only; "split": one that is bound by the link.
        size: Rows and columns of A, B and C; "MxNxK" where these differ.
        dtype: Element type.
        clients: Clients that call at once.
    """

    what: str
    size: int | str
    dtype: str
    clients: int

    def __str__(self) -> str:
        """The case in words."""
        size = self.size if isinstance(self.size, str) else f"{self.size}²"
        some = "client" if self.clients == 1 else "clients"
        return f"{self.what} {size} {self.dtype}, {self.clients} {some}"


@dataclass(frozen=True, slots=True)
class Row(Case):
    """One baseline at one case.

    Attributes:
        baseline: Its name.
        p50_seconds: Median of the rounds' medians.
        p95_seconds: 95th percentile of all requests.
        p99_seconds: 99th percentile of all requests.
        rate: Requests answered in a second, median of the rounds.
        floor_seconds: The least that the request can take: the same bytes over the same socket and
            the executor's own time. With several clients the longer of both, as they overlap.
        spread: Slowest minus fastest round's median, over the median of all.
        rounds: Number of rounds.
        requests: Requests answered.
        refused: Requests refused for now (429, 503).
        client_share: CPU time of the clients over the time that passed: 1 is a whole core.
        transport_seconds: Of a floor: its bytes alone.
        executor_seconds: Of a floor or job: the executor alone.
        own_bytes: Largest growth of the server's own memory.
        server_seconds: Of a job: from its created_at to its finished_at, by the service's clock.
        disk_seconds: Of a job: the time of the result's bytes at the disk's measured rate.
        f: Rows planned for the CPU.
        f_actual: Rows that the CPU computed.
        note: How it was measured, if there are several ways.
    """

    baseline: str
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    rate: float
    floor_seconds: float | None
    spread: float
    rounds: int
    requests: int
    refused: int = 0
    client_share: float | None = None
    transport_seconds: float | None = None
    executor_seconds: float | None = None
    own_bytes: int | None = None
    server_seconds: float | None = None
    disk_seconds: float | None = None
    f: int | None = None
    f_actual: int | None = None
    note: str | None = None

    @property
    def case(self) -> Case:
        """Its case."""
        return Case(self.what, self.size, self.dtype, self.clients)


def summarize_rounds(
    case: Case,
    baseline: str,
    rounds: Sequence[Sequence[float]],
    *,
    floor_seconds: float | None = None,
    rate: float | None = None,
    **figures: Any,
) -> Row:
    """The row of some rounds.

    Args:
        case: The case.
        baseline: The baseline.
        rounds: Seconds of each request, round by round.
        floor_seconds: The least that a request can take.
        rate: Requests answered in a second; by default those of one client.
        figures: Further figures of the row.
    """
    medians = [statistics.median(seconds) for seconds in rounds]
    median = statistics.median(medians)
    together = np.concatenate(rounds)
    p95, p99 = (float(np.percentile(together, percent)) for percent in (95, 99))
    return Row(
        **asdict(case),
        baseline=baseline,
        p50_seconds=median,
        p95_seconds=p95,
        p99_seconds=p99,
        rate=1 / median if rate is None else rate,
        floor_seconds=floor_seconds,
        spread=find_spread(medians, median),
        rounds=len(rounds),
        requests=len(together),
        **figures,
    )


HEADER = (
    f"{'case':<36} {'baseline':<15} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9} {'per s':>8}"
    f" {'floor ms':>9} {'spread':>7} {'refused':>7} {'client':>6}"
)


def describe_row(row: Row) -> str:
    """A line of the table that a run prints."""
    client = "" if row.client_share is None else f"{row.client_share:.0%}"
    floor = "" if row.floor_seconds is None else f"{1e3 * row.floor_seconds:.3f}"
    times = " ".join(
        f"{1e3 * seconds:9.3f}" for seconds in (row.p50_seconds, row.p95_seconds, row.p99_seconds)
    )
    return (
        f"{row.case!s:<36} {row.baseline:<15} {times} {row.rate:8.1f} {floor:>9}"
        f" {row.spread:7.2f} {row.refused:7d} {client:>6}"
    )


@dataclass(frozen=True, slots=True)
class HttpResults:
    """A results file.

    Attributes:
        name: "h200" of http-h200.json.
        document: All but rows and absences.
        rows: Its rows.
        absent: Baselines that do not run there, cases that were not measured, and why.
    """

    name: str
    document: dict[str, Any]
    rows: tuple[Row, ...]
    absent: tuple[str, ...]

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, commit."""
        hardware, versions = self.document["hardware"], self.document["versions"]
        gpu = f"{hardware['gpu']}, driver {hardware['driver']}, with " if hardware["gpu"] else ""
        names = {"numpy": "NumPy", "fastapi": "FastAPI", "uvicorn": "uvicorn"}
        found = ", ".join(f"{shown} {versions[name]}" for name, shown in names.items())
        cores = f"{hardware['cores']} cores of {hardware['cpu']}"
        return f"{gpu}{cores}; {found}; commit {self.document['commit']}"

    def find(self, baseline: str, case: Case) -> Row | None:
        """A baseline's row of a case."""
        return self.find_case(case).get(baseline)

    def find_case(self, case: Case) -> dict[str, Row]:
        """All rows of a case, by baseline."""
        return {row.baseline: row for row in self.rows if row.case == case}

    def list_cases(self, what: str) -> list[Case]:
        """The cases of a kind that were measured, in order."""
        found = {row.case for row in self.rows if row.what == what}
        return sorted(found, key=lambda x: (x.dtype, x.clients, str(x.size).zfill(24)))


def read_http_file(file: Path) -> HttpResults:
    """Read one http-<machine>.json.

    Raises:
        ResultsError: It is no JSON, or lacks something.
        OSError: It cannot be read.
    """
    with read_document(file, "make bench-http") as document:
        rows, absent = read_rows(Row, document.pop("rows")), tuple(document.pop("absent"))
        results = HttpResults(file.stem.removeprefix("http-"), document, rows, absent)
        assert results.caption, "it names the machine"
    return results


def read_http_results(folder: Path) -> list[HttpResults]:
    """Every http-<machine>.json of a folder, by name; none if none was written."""
    return [read_http_file(file) for file in sorted(folder.glob("http-*.json"))]
