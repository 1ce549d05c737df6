"""The rows of benchmarks/results/jobs-<machine>.json: made from jobs, and read again."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.common.results import Results, read_results
from benchmarks.jobs.service import Done, Used, read_time

LEARNED: Final = 100
"""First jobs of a trace whose expected ends do not count: the service learns from them."""


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
        sync_seconds: Median time of a sync of 4 KiB on the same disk.
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
    sync_seconds: float | None = None
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
        expected: dict[str, Any] | None = one.accepted.get("expected")
        if expected is not None:
            end = read_time(one.ended["finished_at"])
            accepted = read_time(one.ended["created_at"])
            first, last = map(read_time, expected["ends_between"])
            errors.append(abs(read_time(expected["ends_at"]) - end) / max(1e-6, end - accepted))
            inside.append(first <= end <= last)
    if not errors:
        return row
    error, coverage = statistics.median(errors), statistics.mean(inside)
    return replace(row, expected_error=error, expected_coverage=coverage)


def read_jobs_results(folder: Path) -> list[Results[JobsRow]]:
    """Every jobs-<machine>.json of a folder, by name; none if none was written."""
    return read_results(folder, "jobs-*.json", JobsRow, "make bench-jobs")
