"""`wavetrim upload`: store files as matrices of the service."""

import contextlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from wavetrim.client import Matrix

EXAMPLES: Final = """[bold]Examples[/]

A=$(wavetrim upload A.npy)
wavetrim upload A.npy B.npy --json
"""


def upload(
    files: Annotated[list[Path], options.name_file("A.npy…", "Files to be stored.")],
    *,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Store .npy files as matrices of the service, and print their ids, in this order.

    All are stored, or none: if one is refused, or the command is interrupted, the others are
    removed again.
    """
    from wavetrim.service.cli.jobs import open_client, remove_matrices
    from wavetrim.service.cli.matrix_files import open_matrix
    from wavetrim.service.cli.terminal.display import open_notes, show_bytes

    for file in files:
        open_matrix(file)  # to refuse it by its name, before anything is sent
    with open_client(url, api_key) as client, contextlib.ExitStack() as undo:
        stored: list[Matrix] = []
        undo.callback(remove_matrices, url, api_key, stored)
        with show_bytes(open_notes()) as move:
            for number, file in enumerate(files, start=1):
                words = f"upload {file.name}" + (f" ({number})" if len(files) > 1 else "")
                stored.append(client.put(file, digest=True, on_progress=partial(move, words)))
        undo.pop_all()
    if as_json:
        typer.echo(json.dumps([matrix.document for matrix in stored], indent=2))
    else:
        typer.echo("\n".join(matrix.id for matrix in stored))
