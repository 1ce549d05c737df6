"""`wavetrim submit`: post a product to a service as a job."""

import json
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from wavetrim.service.cli import options

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
    devices: options.Devices = None,
    verify: options.Verify = False,
    priority: Annotated[
        int, typer.Option(min=-1000, max=1000, help="A higher one runs first.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Upload two matrices, post their product as a job, and print the job's id.

    The result of an earlier job can be an operand: give its matrix id, which `wavetrim status JOB`
    shows, in place of a file. If the job is refused, or the command is interrupted before it is
    posted, the uploaded matrices are removed again.
    """
    from wavetrim.service.cli.jobs import open_client, wait_for_job
    from wavetrim.service.cli.machine import read_plan_options
    from wavetrim.service.cli.matrix_files import check_factors
    from wavetrim.service.cli.terminal.display import open_notes, show_bytes

    plan_options = read_plan_options(
        kernel=kernel, tile=tile, f=f, accuracy=accuracy, sms=sms, devices=devices
    )
    check_factors(alpha=alpha, beta=beta)
    left, right = _read_source("A", a), _read_source("B", b)
    addend = None if c is None else _read_source("C0", c)
    files = {"a": a, "b": b, "c": c}
    notes = open_notes()
    with open_client(url, api_key) as client:
        with show_bytes(notes) as move:
            job = client.submit(
                left,
                right,
                c=addend,
                on_upload=lambda name, *sent: move(f"upload {files[name]}", *sent),
                alpha=alpha,
                beta=beta,
                f=plan_options.f,
                kernel=plan_options.kernel,
                tile=plan_options.tile,
                accuracy=plan_options.accuracy,
                sms=plan_options.sms,
                devices=plan_options.devices,
                verify=verify,
                priority=priority,
            )
        if not as_json:
            typer.echo(job.id)
        status = wait_for_job(job, notes) if wait else None
        if as_json:
            typer.echo(json.dumps((status or job.status()).document, indent=2))


def _read_source(name: str, text: str) -> Path | str:
    """A file, or the id of a matrix.

    Raises:
        FieldError: It is neither.
        FieldProblem: It is a file, but not of a matrix.
    """
    from wavetrim.scheduler.errors import FieldError
    from wavetrim.service.cli.matrix_files import open_matrix

    if Path(text).exists():
        open_matrix(Path(text))  # to refuse it by its name, before anything is sent
        return Path(text)
    if _MATRIX_ID.fullmatch(text):
        return text
    raise FieldError(name, text, "a .npy file that is there, or the id of a matrix")
