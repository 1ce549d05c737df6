"""`wavetrim status`: the jobs of a service."""

import json
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from wavetrim.client import JobStatus

EXAMPLES: Final = """[bold]Examples[/]

wavetrim status
wavetrim status --state running --limit 5
wavetrim status 0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a --json
"""


def status(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Id of a job.", show_default="the latest jobs"),
    ] = None,
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="List only jobs that are queued, running, succeeded, failed or cancelled.",
            show_default="all",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="The most jobs to list.")] = 20,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Show one job, or list the latest ones."""
    from wavetrim.service.cli.jobs import find_job, open_client, print_job
    from wavetrim.service.cli.terminal.display import open_output

    with open_client(url, api_key) as client:
        if job is not None:
            found = client.job(find_job(client, job)).status()
            if as_json:
                typer.echo(json.dumps(found.document, indent=2))
            else:
                print_job(found, open_output())
            return
        jobs = [*islice(client.jobs(state=state, page=limit), limit)]
    if as_json:
        typer.echo(json.dumps([job.document for job in jobs], indent=2))
    else:
        _print_jobs(jobs)


def _print_jobs(jobs: "list[JobStatus]") -> None:
    from rich.table import Table

    from wavetrim.service.cli.terminal.display import open_output
    from wavetrim.service.cli.terminal.units import format_seconds

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("job", "state", "F", "total", "created"):
        table.add_column(name, justify="right" if name in ("F", "total") else "left", no_wrap=True)
    for job in jobs:
        total = (job.timings or {}).get("total_seconds")
        table.add_row(
            job.id,
            f"running {job.progress:.0%}" if job.state == "running" else job.state,
            str(job.plan["f"]) if job.plan else "",
            format_seconds(total) if total is not None else "",
            _read_time(job.document["created_at"]).strftime("%m-%d %H:%M"),
        )
    open_output().print(table if jobs else "no jobs")


def _read_time(text: str) -> datetime:
    """A time that the service has sent, in this machine's time zone."""
    return datetime.fromisoformat(text).astimezone()
