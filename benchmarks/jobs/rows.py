"""The rows of benchmarks/results/jobs-<machine>.json: made from jobs, read again, and shown."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.common.results import Results, read_results
from benchmarks.common.tables import render_table, show, show_ms
from benchmarks.jobs.service import Done, Used
from benchmarks.jobs.trace import LOADS

LEARNED: Final = 100
"""First jobs of a trace whose expected ends do not count: the service learns from them."""

SHOWN: Final = {
    "a flood's victims": ("flood", "victims"),
    "the same without the flood": ("flood", "victims alone"),
    "twenty of 64³ behind one of 3000³": ("behind", "short ones"),
    "64³, one client, in memory": ("single", "memory"),
    "64³, 16 clients, in memory": ("rate", "memory"),
    "64³, 16 clients, on disk": ("rate", "disk"),
    "300 mixed as one list, in a new service": ("list", "one list, at first"),
    "the same again": ("list", "one list"),
    "until the list was accepted": ("list", "one list, accepted"),
    "the same, one by one": ("list", "one by one"),
    "the same in process": ("list", "in process"),
}
"""Lines of the table below those of the loads."""

HEAD: Final = (
    *("jobs", "service", "median ms", "95th ms", "mean ms", "a second", "service CPU ms a job"),
    *("clients' CPU", "error of the end", "in its interval"),
)


@dataclass(frozen=True, slots=True)
class JobsRow:
    """Jobs that were measured together.

    Attributes:
        what: "load", "backlog", "flood", "behind", "rate", "single" or "list".
        policy: The commit or name of the service; "in process" without one.
        group: Which jobs ("all", a caller, a size), or how they were posted.
        jobs: How many.
        load: Arrivals over what the machine does; None without a trace.
        p50_seconds: Median time from when a job was due to be posted until it had succeeded.
        p95_seconds: 95th percentile of that.
        mean_seconds: Mean of that.
        rate: Jobs a second.
        service_cpu_seconds: CPU of the service's process a job.
        client_cpu_seconds: CPU of the clients a job.
        expected_error: Median error of `ends_at`, over the time from acceptance to the end.
        expected_coverage: Share of jobs that ended in the interval given at acceptance.
    """

    what: str
    policy: str
    group: str
    jobs: int
    load: float | None = None
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    mean_seconds: float | None = None
    rate: float | None = None
    service_cpu_seconds: float | None = None
    client_cpu_seconds: float | None = None
    expected_error: float | None = None
    expected_coverage: float | None = None

    def __str__(self) -> str:
        load = "" if self.load is None else f" {self.load:g}"
        times = (self.p50_seconds, self.p95_seconds, self.service_cpu_seconds)
        shown = ", ".join("-" if one is None else f"{1e3 * one:.2f}" for one in times)
        rate = "" if self.rate is None else f", {self.rate:.0f}/s"
        name = f"{self.what}{load} {self.group} {self.policy}"
        return f"{name}: {self.jobs} jobs, p50, p95, CPU a job {shown} ms{rate}"


def summarize(
    what: str, policy: str, group: str, done: Sequence[Done], load: float | None = None
) -> JobsRow:
    """The row of some jobs."""
    seconds = sorted(one.seconds for one in done)
    return JobsRow(
        *(what, policy, group, len(done), load),
        p50_seconds=statistics.median(seconds),
        p95_seconds=seconds[math.ceil(0.95 * len(seconds)) - 1],
        mean_seconds=statistics.mean(seconds),
    )


def add_used(row: JobsRow, used: Used) -> JobsRow:
    """A row with its rate, and with the CPU time of its jobs."""
    return replace(
        row,
        rate=row.jobs / used.seconds,
        service_cpu_seconds=used.service_seconds / row.jobs,
        client_cpu_seconds=used.client_seconds / row.jobs,
    )


def add_expected(row: JobsRow, done: Sequence[Done]) -> JobsRow:
    """A row with the error of the expected ends; unchanged if the service gave none."""
    errors, inside = [], []
    for one in done[LEARNED:]:
        if one.expected is not None:
            end, (first, last) = one.read_time("finished_at"), one.expected.ends_between
            seconds = (end - one.read_time("created_at")).total_seconds()
            error_seconds = abs((one.expected.ends_at - end).total_seconds())
            errors.append(error_seconds / max(1e-6, seconds))
            inside.append(first <= end <= last)
    if not errors:
        return row
    error, coverage = statistics.median(errors), statistics.mean(inside)
    return replace(row, expected_error=error, expected_coverage=coverage)


def read_jobs_results(folder: Path) -> list[Results[JobsRow]]:
    """Every jobs-<machine>.json of a folder, by name; none if none was written."""
    return read_results(folder, "jobs-*.json", JobsRow, "make bench-jobs")


def render_machine(results: Results[JobsRow]) -> str:
    """The table of one machine."""
    return f"{results.hardware}:\n\n{render_table(HEAD, _list_lines(results))}"


def _list_lines(results: Results[JobsRow]) -> Iterator[list[str]]:
    wanted: dict[str, tuple[str, str, float | None]] = {
        f"the trace at load {load:g}": ("load", "all", load) for load in LOADS
    }
    wanted |= {told: (*kind, None) for told, kind in SHOWN.items()}
    for told, kind in wanted.items():
        for row in results.rows:
            if (row.what, row.group, row.load) == kind:
                yield [told, row.policy, *_list_cells(row)]


def _list_cells(row: JobsRow) -> list[str]:
    seconds = (row.p50_seconds, row.p95_seconds, row.mean_seconds)
    used = (row.service_cpu_seconds, row.client_cpu_seconds)
    shares = (row.expected_error, row.expected_coverage)
    return [
        *map(show_ms, seconds),
        show(row.rate, ".0f"),
        *(show(None if one is None else 1e3 * one, ".2f") for one in used),
        *(show(one, ".0%") for one in shares),
    ]
