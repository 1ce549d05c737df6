"""`wavetrim download`: a matrix of the service as a file."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from wavetrim.service.cli import options

EXAMPLES: Final = """[bold]Examples[/]

wavetrim download 5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e
wavetrim download 5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e -o A.npy
"""


def download(
    matrix: Annotated[str, typer.Argument(metavar="ID", help="Id of a matrix.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="A.npy",
            help="File for the matrix; an existing one is replaced when the download is complete.",
            show_default="ID.npy",
        ),
    ] = None,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Download a matrix of the service: one that was uploaded, or the result of a job.

    After a lost connection the download goes on where it broke. The file appears once it is
    complete and its length and digest are right.
    """
    from wavetrim.service.cli.jobs import find_matrix, open_client
    from wavetrim.service.cli.matrix_files import check_output
    from wavetrim.service.cli.terminal.display import open_notes, show_bytes

    if output is not None:
        check_output(output, {})
    with open_client(url, api_key) as client, show_bytes(open_notes()) as move:
        matrix = find_matrix(client, matrix)
        file = Path(f"{matrix}.npy") if output is None else output
        check_output(file, {})
        words = f"download {file.name}"
        size_bytes = client.download(matrix, file, on_progress=partial(move, words))
    if as_json:
        typer.echo(json.dumps({"id": matrix, "file": str(file), "bytes": size_bytes}, indent=2))
