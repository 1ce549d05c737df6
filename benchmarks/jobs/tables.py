"""The tables of jobs, one for each machine."""

from collections.abc import Iterator
from typing import Final

from benchmarks.common.results import Results
from benchmarks.common.tables import render_table, show
from benchmarks.jobs.rows import JobsRow
from benchmarks.jobs.scenes import LOADS

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
        *(show(None if one is None else 1e3 * one, ".3g") for one in seconds),
        show(row.rate, ".0f"),
        *(show(None if one is None else 1e3 * one, ".2f") for one in used),
        *(show(one, ".0%") for one in shares),
    ]
