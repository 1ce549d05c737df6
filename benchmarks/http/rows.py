"""The rows of benchmarks/results/http-<machine>.json, written and read."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.results import name_all_commits, read_document, read_rows, write_document


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """What baselines take turns at.

    Attributes:
        what: "product": a request with A and B, answered with A·B. "upload" and "download": a kept
            matrix. "job": from its accepted POST until it has succeeded; "job-memory" with a result
            that is kept in memory alone.
        size: Rows and columns of A, B and C; "MxNxK" where these differ.
        dtype: Element type.
        clients: How many call at once.
    """

    what: str
    size: int | str
    dtype: str
    clients: int

    def __str__(self) -> str:
        """A line's beginning."""
        size = self.size if isinstance(self.size, str) else f"{self.size}²"
        some = "client" if self.clients == 1 else "clients"
        return f"{self.what} {size} {self.dtype}, {self.clients} {some}"


@dataclass(frozen=True, slots=True)
class Row:
    """One baseline at one case.

    Attributes:
        what: Of the case, as the three that follow.
        size: See there.
        dtype: See there.
        clients: See there.
        baseline: Whose figures they are.
        p50_seconds: Median of the rounds' medians.
        p95_seconds: 95th percentile of all requests.
        p99_seconds: 99th percentile of all requests.
        rate: Requests answered in a second, median of the rounds.
        floor_seconds: The least that the request can take: the same bytes over the same socket and
            the executor's own time. With several clients the longer of both, as they overlap.
        spread: Slowest minus fastest round's median, over the median of all.
        rounds: How often it had its turn.
        requests: How many were answered.
        refused: How many were refused for now (429, 503).
        client_share: CPU time of the clients over the time that passed: 1 is a whole core.
        transport_seconds: Of a floor: its bytes alone.
        executor_seconds: Of a floor: the executor alone.
        own_bytes: The most that the server's own memory grew.
        server_seconds: Of a job: from its created_at to its finished_at, as the service has them.
        disk_seconds: Of a job: what the result's bytes take at the disk's measured rate.
        f: Rows planned for the CPU.
        f_actual: Rows that the CPU computed.
        note: How it was measured, where there are several ways.
    """

    what: str
    size: int | str
    dtype: str
    clients: int
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
        """What it was measured at."""
        return Case(self.what, self.size, self.dtype, self.clients)


@dataclass(frozen=True, slots=True)
class HttpResults:
    """A results file.

    Attributes:
        name: "h200" of http-h200.json.
        document: All but rows and absences.
        rows: Its rows.
        absent: Baselines that do not run there, and why.
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
        return next((x for x in self.rows if (x.baseline, x.case) == (baseline, case)), None)

    def find_case(self, case: Case) -> dict[str, Row]:
        """All rows of a case, by baseline."""
        return {row.baseline: row for row in self.rows if row.case == case}

    def list_cases(self, what: str) -> list[Case]:
        """The cases of a kind that were measured, in order."""
        found = {row.case for row in self.rows if row.what == what}
        return sorted(found, key=lambda x: (x.dtype, x.clients, str(x.size).zfill(24)))

    def write(self, file: Path) -> None:
        """Write the file whole."""
        write_document(file, **self.document, absent=self.absent, rows=self.rows)


def summarize_turns(case: Case, baseline: str, seconds: Sequence[float], floor: float) -> Row:
    """The row of some turns, each of one request."""
    median = statistics.median(seconds)
    p95, p99 = (float(np.percentile(seconds, percent)) for percent in (95, 99))
    return Row(
        what=case.what,
        size=case.size,
        dtype=case.dtype,
        clients=case.clients,
        baseline=baseline,
        p50_seconds=median,
        p95_seconds=p95,
        p99_seconds=p99,
        rate=1 / median,
        floor_seconds=floor,
        spread=(max(seconds) - min(seconds)) / median,
        rounds=len(seconds),
        requests=len(seconds),
    )


def read_http_results(file: Path) -> HttpResults:
    """Read one http-<machine>.json.

    Raises:
        ResultsError: It is no JSON, or lacks something.
        OSError: It cannot be read.
    """
    with read_document(file, "make bench-http") as document:
        found = document.pop("rows")
        absent = tuple(document.pop("absent"))
        name_all_commits(document, found)
        name = file.stem.removeprefix("http-")
        results = HttpResults(name, document, read_rows(Row, found), absent)
        assert results.caption, "it names the machine"
    return results


def read_all_http_results(folder: Path) -> list[HttpResults]:
    """Every http-<machine>.json of a folder, by name; none if none was written.

    Raises:
        ResultsError: One of them lacks something.
    """
    return [read_http_results(file) for file in sorted(folder.glob("http-*.json"))]
