"""Commands for jobs: `jobs` lists them, `status` shows one; `fetch`, `cancel` and `priority`.

Options:
    job (JOB): Id of a job.
    state (; all): List only jobs that are queued, running, succeeded, failed or cancelled.
    limit: The most jobs to list.
    wait: Wait until the job has ended.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from wavetrim.client import Job, JobStatus
from wavetrim.service.cli import display, options
from wavetrim.service.cli.client import ServiceOptions, find_job
from wavetrim.service.cli.exits import CommandRefused
from wavetrim.service.cli.matrix_files import check_output

_PAUSE_SECONDS: Final = 1.0
"""Between two looks at jobs that are watched; chosen."""

_Limit = Annotated[int, typer.Option(min=1, max=100)]


def jobs(
    *,
    label: list[str] | None = None,
    state: str | None = None,
    limit: _Limit = 20,
    watch: bool = False,
    service: ServiceOptions,
) -> None:
    """List the latest jobs.

    The list shows how many jobs go before a queued one, and when a job should end. `wavetrim status
    JOB` says how certain that is, and why.

    Options:
        label (LABEL; all): List only jobs with this label; if repeated, those with all labels.
        watch: Show the list anew each second, until all jobs have ended.

    Example:
        wavetrim jobs --limit 5
    """
    with service.open() as client:

        def look() -> list[JobStatus]:
            return [*islice(client.jobs(label=label, state=state, page=limit), limit)]

        screen = display.open_notes() if service.as_json else display.open_output()
        found = _watch(look, screen) if watch else look()
    if service.as_json or not watch:
        service.show([job.document for job in found], _show_list(found))


def status(
    job: str | None = None, *, state: str | None = None, limit: _Limit = 20, service: ServiceOptions
) -> None:
    """Show one job, or list the latest ones.

    Options:
        job (JOB; the latest jobs): Id of a job.

    Example:
        wavetrim status --limit 5
    """
    if job is None:
        jobs(state=state, limit=limit, service=service)
        return
    with service.open() as client:
        found = client.job(find_job(client, job)).status()
    service.show(found.document, _describe_job(found))


def fetch(job: str, *, output: options.Output, wait: bool = False, service: ServiceOptions) -> None:
    """Download the product of a job that has succeeded.

    After a lost connection the download goes on where it broke. The file appears once it is
    complete and its length and digest are right.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim fetch $(wavetrim submit A.npy B.npy) -o C.npy --wait
    """
    check_output(output)
    notes = display.open_notes()
    with service.open() as client:
        posted = client.job(find_job(client, job))
        if wait:
            wait_for_job(posted, notes)
        with display.show_bytes(notes) as move:
            size_bytes = posted.download(output, on_progress=partial(move, f"fetch {output.name}"))
    if service.as_json:
        display.print_json({"job": posted.id, "file": str(output), "bytes": size_bytes})


def cancel(
    job: str | None = None, *, label: list[str] | None = None, service: ServiceOptions
) -> None:
    """Cancel a job, or all jobs of a label.

    A queued job ends at once, a running one as soon as the engine lets it go.

    Options:
        job (JOB): Id of a job.
        label (LABEL): Cancel all jobs with this label that have not ended; if repeated, those with
            all labels.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim submit A.npy B.npy --label night
        wavetrim cancel --label night
    """
    if (job is None) == (not label):
        raise CommandRefused("cancel takes either a JOB or --label LABEL")
    with service.open() as client:
        if job is None:
            count = client.cancel_labelled(label or [])
            document: object = {"cancelled": count}
            said = f"cancelled {count} jobs with the label {' and '.join(label or [])}"
        else:
            found = client.cancel(find_job(client, job))
            document = found.document
            state = found.state if found.is_finished else f"{found.state}, and is told to stop"
            said = f"job {found.id}: {state}"
    service.show(document, said)


def priority(
    job: str, to: Annotated[int, typer.Argument(min=-1000, max=1000)], *, service: ServiceOptions
) -> None:
    """Change the priority of a queued job.

    It is compared with that of your other jobs only. A negative one comes after two dashes:
    wavetrim priority JOB -- -5.

    Options:
        to (N): The new priority: a job with a higher one goes first.

    Example:
        python -c "from numpy import *; save('A', eye(1000))"
        yes 'A.npy A.npy' | head -1000 > products.txt
        LAST=$(wavetrim submit --list products.txt --label many | tail -1)
        wavetrim priority $LAST 5
        wavetrim cancel --label many
    """
    with service.open() as client:
        found = client.job(find_job(client, job)).set_priority(to)
    service.show(found.document, f"job {found.id}: {found.state}, priority {to}")


def wait_for_job(job: Job, notes: Console) -> JobStatus:
    """Wait with a progress bar until a job has succeeded, and show its plan and timings."""
    try:
        ended = job.wait(progress=True)
    except KeyboardInterrupt:
        notes.print(f"the job goes on; `wavetrim status {job.id}` shows it", markup=False)
        raise
    notes.print(_describe_job(ended))
    return ended


def _describe_job(job: JobStatus) -> Group:
    """All that is known of a job."""
    line = f"job {job.id}: {job.state}"
    shown: list[RenderableType] = [
        Text(f"{line}, {job.progress:.0%}" if job.state == "running" else line)
    ]
    if job.labels:
        shown.append(Text(f"labels: {', '.join(job.labels)}"))
    if (expected := job.expected) is not None:
        end, first, last = map(_show_time, (expected.ends_at, *expected.ends_between))
        before = f" after {expected.position} others" if expected.position else ""
        between = f"nine times in ten between {first} and {last}"
        shown += [Text(f"ends at {end}{before}, {between}"), Text(expected.reason)]
    if job.plan is not None:
        shown.append(display.make_plan_table(job.plan))
    if job.plan is not None and job.timings is not None:
        shown.append(display.make_timings_table(job.timings, job.plan))
    if job.verification is not None:
        outcome = "passed" if job.verification["passed"] else "failed"
        shown.append(Text(f"verification {outcome}: {display.describe_check(job.verification)}"))
    if job.result is not None:
        shown.append(Text(f"result: matrix {job.result}"))
    if job.error is not None:
        shown.append(Text(f"error: {job.error.get('message')}", style="red"))
    return Group(*shown)


def _watch(look: Callable[[], list[JobStatus]], console: Console) -> list[JobStatus]:
    """Show jobs until all have ended."""
    with Live(console=console, auto_refresh=False) as screen:
        while True:
            found = look()
            screen.update(_show_list(found), refresh=True)
            if all(job.is_finished for job in found):
                return found
            time.sleep(_PAUSE_SECONDS)


def _show_list(found: Sequence[JobStatus]) -> Table | str:
    """A table of jobs, or that there are none."""
    if not found:
        return "no jobs"
    numbers = ("F", "total, end")
    table = display.make_list("job", "state", *numbers, "created", right=numbers)
    for job in found:
        labels = escape(", ".join(job.labels))
        table.add_row(
            f"{job.id}\n  {labels}" if labels else job.id,
            _show_state(job),
            str(job.plan["f"]) if job.plan else "",
            _show_total(job),
            _show_time(datetime.fromisoformat(job.document["created_at"])),
        )
    return table


def _show_state(job: JobStatus) -> str:
    """A job's state, with its progress or how many go before it."""
    if job.state == "running":
        return f"running {job.progress:.0%}"
    if job.expected is None:
        return job.state
    place = f" after {job.expected.position}" if job.expected.position else ", next"
    return job.state + place


def _show_total(job: JobStatus) -> str:
    """How long a job took, or the time at which it should end."""
    if (total := (job.timings or {}).get("total_seconds")) is not None:
        return display.format_seconds(total)
    return "" if job.expected is None else _show_time(job.expected.ends_at)


def _show_time(at: datetime) -> str:
    """A time in this machine's time zone; of other days the day."""
    is_today = at.astimezone().date() == datetime.now().astimezone().date()
    return at.astimezone().strftime("%H:%M:%S" if is_today else "%m-%d %H:%M")
