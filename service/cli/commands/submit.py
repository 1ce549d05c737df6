"""`wavetrim submit`: hand a product to a service."""

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from wavetrim.service.client import WavetrimClient

EXAMPLES: Final = """[bold]Examples[/]

JOB=$(wavetrim submit A.npy B.npy)
wavetrim submit A.npy B.npy --wait --accuracy strict
wavetrim submit 5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e B.npy --c C0.npy --beta 1
"""

_MATRIX_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


def submit(
    a: Annotated[str, typer.Argument(metavar="A", help="M x K: a .npy file or a matrix id.")],
    b: Annotated[str, typer.Argument(metavar="B", help="K x N: a .npy file or a matrix id.")],
    *,
    c: Annotated[
        str | None,
        typer.Option(
            "--c",
            metavar="C0",
            help="M x N, added beta times: a .npy file or a matrix id.",
            rich_help_panel="Product",
        ),
    ] = None,
    alpha: options.Alpha = 1.0,
    beta: options.Beta = 0.0,
    kernel: options.Kernel = "auto",
    tile: options.Tile = None,
    f: options.F = "auto",
    accuracy: options.Accuracy = None,
    sms: options.Sms = None,
    verify: options.Verify = False,
    priority: Annotated[
        int, typer.Option(min=-1000, max=1000, help="A higher one runs first.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Upload two matrices, post their product as a job, and print the job's id.

    The result of an earlier job can be an operand: give its matrix id, which `wavetrim status JOB`
    shows, in place of a file.
    """
    from wavetrim.service.cli.display import open_notes
    from wavetrim.service.cli.jobs import open_client, wait_for_job
    from wavetrim.service.cli.machine import read_wishes

    wishes = read_wishes(kernel=kernel, tile=tile, f=f, accuracy=accuracy, sms=sms)
    sources = {
        name: _read_source(name, text)
        for name, text in (("A", a), ("B", b), ("C0", c))
        if text is not None
    }
    notes = open_notes()
    with open_client(url, api_key) as client:
        with contextlib.ExitStack() as undo:
            ids = {name: _upload(client, source, undo, notes) for name, source in sources.items()}
            job = client.submit(
                ids["A"],
                ids["B"],
                c=ids.get("C0"),
                alpha=alpha,
                beta=beta,
                wishes=wishes,
                verify=verify,
                priority=priority,
            )
            undo.pop_all()
        typer.echo(job.id)
        if wait:
            wait_for_job(client, job.id, notes)


def _read_source(name: str, text: str) -> Path | str:
    """A file, or the id of a matrix.

    Raises:
        FieldError: It is neither.
    """
    from wavetrim.scheduler.errors import FieldError

    if Path(text).is_file():
        return Path(text)
    if _MATRIX_ID.fullmatch(text):
        return text
    raise FieldError(name, text, "a .npy file that is there, or the id of a matrix")


def _upload(
    client: "WavetrimClient", source: Path | str, undo: contextlib.ExitStack, notes: "Console"
) -> str:
    """Upload a file, to be removed again if no job comes to need it; an id stays as it is."""
    from wavetrim.service.cli.display import show_bytes
    from wavetrim.service.client_errors import ClientError

    if isinstance(source, str):
        return source
    with show_bytes(notes, f"upload {source.name}") as move:
        matrix = client.upload(source, on_progress=move)

    def remove() -> None:
        with contextlib.suppress(ClientError):
            client.delete_matrix(matrix.id)

    undo.callback(remove)
    return matrix.id
