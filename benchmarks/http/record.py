"""What a run has found so far, written anew with every case."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.http.rows import HttpResults, Row


class Record:
    """Rows and absences in a file.

    Args:
        out: The results file.
        environment: What the run is measured on.

    Attributes:
        results: What there is.
        broken: Whether the service failed at something that it was measured at.
    """

    def __init__(self, out: Path, environment: Mapping[str, Any]) -> None:
        self._out = out
        self.broken = False
        name = out.stem.removeprefix("http-")
        self.results = HttpResults(name, dict(environment), (), ())
        out.parent.mkdir(parents=True, exist_ok=True)

    def describe(self, **about: Any) -> None:
        """Add to what stands above the rows."""
        self.results = replace(self.results, document={**self.results.document, **about})

    def add(self, rows: Sequence[Row]) -> None:
        """Add the rows of a case, print and write them."""
        self.results = replace(self.results, rows=(*self.results.rows, *rows))
        self.results.write(self._out)
        for row in rows:
            print(describe_row(row), flush=True)

    def leave_out(self, what: str, why: str) -> None:
        """Note what does not run here, or was not measured, and write it."""
        line = f"{what}: {why}"
        if line not in self.results.absent:
            self.results = replace(self.results, absent=(*self.results.absent, line))
            self.results.write(self._out)
            print(f"absent: {line}", flush=True)


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
