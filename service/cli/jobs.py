"""A service's jobs and matrices, as commands use them."""

import contextlib
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.terminal.display import (
    describe_check,
    make_plan_table,
    make_timings_table,
    show_share,
)
from wavetrim.service.key_file import read_key_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from wavetrim.client import Client, Job, JobStatus, Matrix


_ID_CHARACTERS: Final = 32
"""Length of an id."""

_LEAST_CHARACTERS: Final = 4
"""Shortest beginning of one; chosen: the page shows eight."""


def open_client(url: str, api_key: str | None) -> "Client":
    """A client of the service at `url`.

    Raises:
        CommandFailed: It is no address, the key cannot be one, or its file cannot be read.
    """
    from wavetrim.client import Client
    from wavetrim.client.wire.address import parse_address

    try:
        parse_address(url)
    except ValueError as error:
        raise CommandFailed(f"--{error}", ExitCode.REFUSED) from error
    return Client(url, api_key=_find_key(api_key))


def _find_key(key: str | None) -> str | None:
    """The key that was given, else the one in the file that the environment names.

    Raises:
        CommandFailed: The file cannot be read, or the key cannot be one; it is not shown.
    """
    name = "--api-key"
    path = os.environ.get("WAVETRIM_API_KEY_FILE")
    if key is None and path:
        name = "WAVETRIM_API_KEY_FILE"
        try:
            key = read_key_file(Path(path))
        except ValueError as error:
            raise CommandFailed(f"{name}: {error}", ExitCode.REFUSED) from error
    if key is not None:
        _check_key(key, name)
    return key


def _check_key(key: str, name: str) -> None:
    from wavetrim.client.opening import check_api_key

    try:
        check_api_key(key, name)
    except ValueError as error:
        raise CommandFailed(str(error), ExitCode.REFUSED) from error


def find_job(client: "Client", text: str) -> str:
    """The id of a job, of which the beginning is enough if no other has it."""
    return find_id("JOB", text, (job.id for job in client.jobs(page=200)))


def find_matrix(client: "Client", text: str) -> str:
    """The id of a matrix, likewise."""
    return find_id("ID", text, (matrix.id for matrix in client.matrices()))


def find_id(name: str, text: str, ids: "Iterable[str]") -> str:
    """The only id that begins with a text, or the text itself if none does.

    Raises:
        FieldError: Several do.
    """
    if not _LEAST_CHARACTERS <= len(text) < _ID_CHARACTERS:
        return text
    found = [*islice((one for one in ids if one.startswith(text)), 2)]
    if len(found) > 1:
        from wavetrim.scheduler.errors import FieldError

        raise FieldError(name, text, f"the beginning of one id, not of {found[0]} and {found[1]}")
    return found[0] if found else text  # the service says that there is none


def remove_matrices(url: str, api_key: str | None, matrices: "Iterable[Matrix]") -> None:
    """Remove matrices that a command has stored before it was refused or interrupted.

    A service that refuses is no error, and for one that does not answer nobody waits long.
    """
    from wavetrim.client import Client, ServiceRefused, ServiceUnreachable
    from wavetrim.client.wire.transport import UNDO_SECONDS

    with (
        Client(url, api_key=_find_key(api_key), timeout=UNDO_SECONDS) as client,
        contextlib.suppress(ServiceUnreachable),
    ):
        for matrix in matrices:
            with contextlib.suppress(ServiceRefused):
                client.delete(matrix)


def wait_for_job(job: "Job", notes: "Console") -> "JobStatus":
    """Wait with a progress bar until a job has succeeded, and show its plan and timings.

    Raises:
        JobUnsuccessful: It failed or was cancelled.
    """
    try:
        with show_share(notes, "multiply") as move:
            ended = job.wait(progress=lambda status: move(status.progress))
    except KeyboardInterrupt:
        notes.print(f"the job goes on; `wavetrim status {job.id}` shows it", markup=False)
        raise
    print_job(ended, notes)
    return ended


def print_job(job: "JobStatus", console: "Console") -> None:
    """Show all that is known of a job."""
    line = f"job {job.id}: {job.state}"
    console.print(line + (f", {job.progress:.0%}" if job.state == "running" else ""), markup=False)
    if job.plan is not None:
        console.print(make_plan_table(job.plan, job.plan["f"] + job.plan["gpu_rows"]))
    if job.plan is not None and job.timings is not None:
        console.print(make_timings_table(job.timings, job.plan))
    if job.verification is not None:
        outcome = "passed" if job.verification["passed"] else "failed"
        console.print(f"verification {outcome}: {describe_check(job.verification)}")
    if job.result is not None:
        console.print(f"result: matrix {job.result}", markup=False)
    if job.error is not None:
        console.print(f"error: {job.error.get('message')}", markup=False, style="red")
