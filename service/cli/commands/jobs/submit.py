"""`wavetrim submit`: post a product to a service as a job."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

import typer

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from wavetrim.client import Client

EXAMPLES: Final = """[bold]Examples[/]

JOB=$(wavetrim submit A.npy B.npy)
wavetrim submit A.npy B.npy --wait --accuracy strict
wavetrim submit 5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e B.npy --c C0.npy --beta 1
"""

_NAMES: Final = {"a": "A", "b": "B", "c": "C0"}

_MATRIX_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Operand(NamedTuple):
    """A file, or a matrix of the service.

    Attributes:
        id: The file's path, or the matrix's id.
        rows: First size.
        columns: Second size.
        dtype: NumPy's name of the element type.
    """

    id: str
    rows: int
    columns: int
    dtype: str


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
    storage: Annotated[
        str, typer.Option(help="Where the result is kept: disk, or memory until the service ends.")
    ] = "disk",
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
    from wavetrim.service.jobs.operands import check_operands

    if storage not in ("disk", "memory"):
        raise typer.BadParameter(f"it is {storage!r}; it must be disk or memory")
    plan_options = read_plan_options(
        kernel=kernel, tile=tile, f=f, accuracy=accuracy, sms=sms, devices=devices
    )
    check_factors(alpha=alpha, beta=beta)
    files = {"a": a, "b": b} | ({} if c is None else {"c": c})
    opened = {name: _open_file(name, text) for name, text in files.items()}
    notes = open_notes()
    with open_client(url, api_key) as client:
        found = {name: opened[name] or _find_stored(client, text) for name, text in files.items()}
        check_operands(found["a"], found["b"], found.get("c"), alpha=alpha, beta=beta)
        sources = {
            name: Path(matrix.id) if opened[name] else matrix.id for name, matrix in found.items()
        }
        with show_bytes(notes) as move:
            job = client.submit(
                sources["a"],
                sources["b"],
                c=sources.get("c"),
                storage=cast("Any", storage),
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


def _open_file(name: str, text: str) -> "Operand | None":
    """The matrix of a file; None for what may be the id of a stored one.

    Raises:
        FieldError: It is neither.
        FieldProblem: It is a file, but not of a matrix.
    """
    from wavetrim.scheduler.errors import FieldError
    from wavetrim.service.cli.matrix_files import open_matrix

    if Path(text).exists():
        matrix = open_matrix(Path(text))
        return Operand(text, matrix.rows, matrix.columns, matrix.dtype)
    if _MATRIX_ID.fullmatch(text):
        return None
    raise FieldError(_NAMES[name], text, "a .npy file that is there, or the id of a matrix")


def _find_stored(client: "Client", text: str) -> "Operand":
    """A matrix of the service, by its id or the beginning of one."""
    from wavetrim.service.cli.jobs import find_matrix

    matrix = client.matrix(find_matrix(client, text))
    return Operand(matrix.id, *matrix.shape, matrix.dtype)
