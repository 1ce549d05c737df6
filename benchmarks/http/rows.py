"""The rows of benchmarks/results/http-<machine>.json, written and read."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from benchmarks.measured import ResultsError

_AGAIN: Final = "`make bench-http` writes it anew"


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """What contenders take turns at.

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
    """One contender at one case.

    Attributes:
        what: Of the case, as the three that follow.
        size: See there.
        dtype: See there.
        clients: See there.
        contender: Whose figures they are.
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
        commit: What was measured.
    """

    what: str
    size: int | str
    dtype: str
    clients: int
    contender: str
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
    commit: str | None = None

    @property
    def case(self) -> Case:
        """What it was measured at."""
        return Case(self.what, self.size, self.dtype, self.clients)

    @classmethod
    def read(cls, figures: dict[str, Any]) -> Self:
        """A row of the file.

        Raises:
            TypeError: It lacks a figure.
        """
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in figures.items() if name in names})


@dataclass(frozen=True, slots=True)
class HttpResults:
    """A results file.

    Attributes:
        name: "h200" of http-h200.json.
        document: All but rows and absences.
        rows: Its rows.
        absent: Contenders that do not run there, and why.
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
        others = sorted({row.commit for row in self.rows if row.commit} - {self.document["commit"]})
        older = f" († {', '.join(others)})" if others else ""
        return f"{gpu}{cores}; {found}; commit {self.document['commit']}{older}"

    def mark(self, row: Row) -> str:
        """A dagger for a row of another commit than the file's."""
        return "" if row.commit in {None, self.document["commit"]} else " †"

    def find(self, contender: str, case: Case) -> Row | None:
        """A contender's row of a case."""
        return next((x for x in self.rows if (x.contender, x.case) == (contender, case)), None)

    def find_case(self, case: Case) -> dict[str, Row]:
        """All rows of a case, by contender."""
        return {row.contender: row for row in self.rows if row.case == case}

    def list_cases(self, what: str) -> list[Case]:
        """The cases of a kind that were measured, in order."""
        found = {row.case for row in self.rows if row.what == what}
        return sorted(found, key=lambda x: (x.dtype, x.clients, str(x.size).zfill(24)))

    def add(self, rows: Sequence[Row]) -> Self:
        """With the rows of a case, in place of those of these contenders that it has."""
        new = {(row.contender, row.case) for row in rows}
        kept = [row for row in self.rows if (row.contender, row.case) not in new]
        return replace(self, rows=(*kept, *rows))

    def write(self, file: Path) -> None:
        """Write the file whole: each row in a line of its own, figures with six digits."""
        head = json.dumps({**self.document, "absent": self.absent}, indent=1, ensure_ascii=False)
        lines = ",\n  ".join(json.dumps(_shorten(row), ensure_ascii=False) for row in self.rows)
        begin = head.removesuffix("\n}")
        text = f'{begin},\n "rows": [\n  {lines}\n ]\n}}\n'
        part = file.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(file)


def _shorten(row: Row) -> dict[str, Any]:
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in asdict(row).items()
        if value is not None or name == "floor_seconds"
    }


def summarize_turns(case: Case, contender: str, seconds: Sequence[float], floor: float) -> Row:
    """The row of some turns, each of one request."""
    median = statistics.median(seconds)
    p95, p99 = (float(np.percentile(seconds, percent)) for percent in (95, 99))
    return Row(
        what=case.what,
        size=case.size,
        dtype=case.dtype,
        clients=case.clients,
        contender=contender,
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
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rows = tuple(Row.read(row) for row in document.pop("rows"))
        absent = tuple(document.pop("absent"))
        results = HttpResults(file.stem.removeprefix("http-"), document, rows, absent)
        assert results.caption, "it names the machine"
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(f"{file.name}: {what}; {_AGAIN}") from error
    return results


def read_all_http_results(folder: Path) -> list[HttpResults]:
    """Every http-<machine>.json of a folder, by name; none if none was written.

    Raises:
        ResultsError: One of them lacks something.
    """
    return [read_http_results(file) for file in sorted(folder.glob("http-*.json"))]


def keep_rows(rows: Iterable[Row], commit: str) -> tuple[set[Case], tuple[Row, ...]]:
    """Cases that this commit has measured already, and the rows to begin with."""
    there = tuple(rows)
    return {row.case for row in there if row.commit == commit}, there
