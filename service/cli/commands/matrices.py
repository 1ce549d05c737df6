"""Commands for stored matrices: `upload`, `matrices`, `download` and `rm`."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wavetrim.service.cli import display, options
from wavetrim.service.cli.client import ServiceOptions, find_matrix, store_files
from wavetrim.service.cli.matrix_files import check_output, open_matrix


def upload(files: Annotated[list[Path], options.existing()], *, service: ServiceOptions) -> None:
    """Store .npy files as matrices of the service, and print their ids.

    The ids come in this order. All files are stored, or none: if one is refused, or the command is
    interrupted, the others are removed again.

    Options:
        files (A.npy…): Files to be stored.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim upload A.npy B.npy
    """
    for file in files:
        open_matrix(file)  # to refuse it by its name, before anything is sent
    with service.open() as client, store_files(client, files) as stored:
        words = "\n".join(matrix.id for matrix in stored)
        service.show([matrix.document for matrix in stored], words)


def download(
    matrix: str,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None,
    service: ServiceOptions,
) -> None:
    """Download a matrix: one that was uploaded, or a job's result.

    After a lost connection the download goes on where it broke. The file appears once it is
    complete and its length and digest are right.

    Options:
        matrix (ID): Id of a matrix.
        output (A.npy; ID.npy): File for the matrix; an existing one is replaced when the download
            is complete.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim download $(wavetrim upload A.npy) -o copy.npy
    """
    if output is not None:
        check_output(output)
    with service.open() as client, display.show_bytes(display.open_notes()) as move:
        matrix = find_matrix(client, matrix)
        file = Path(f"{matrix}.npy") if output is None else output
        check_output(file)
        words = f"download {file.name}"
        size_bytes = client.download(matrix, file, on_progress=partial(move, words))
    if service.as_json:
        display.print_json({"id": matrix, "file": str(file), "bytes": size_bytes})


def matrices(*, service: ServiceOptions) -> None:
    """List the matrices that the service stores, newest first.

    The last column counts the queued and running jobs that need a matrix.

    Example:
        wavetrim matrices
    """
    with service.open() as client:
        found = [*client.matrices()]
    heads = ("matrix", "shape", "type", "size", "created", "jobs")
    table = display.make_list(*heads, right=("size", "jobs"))
    for matrix in found:
        created = datetime.fromisoformat(matrix.document["created_at"]).astimezone()
        table.add_row(
            matrix.id,
            "x".join(map(str, matrix.shape)),
            matrix.dtype,
            display.format_bytes(matrix.size_bytes),
            created.strftime("%m-%d %H:%M"),
            str(len(matrix.document["used_by"]) or ""),
        )
    service.show([matrix.document for matrix in found], table if found else "no matrices")


def rm(ids: list[str], *, service: ServiceOptions) -> None:
    """Remove matrices from the service.

    They are removed one after the other. The first that does not exist, or that a job needs, ends
    the command.

    Options:
        ids (ID…): Ids of matrices.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim rm $(wavetrim upload A.npy)
    """
    with service.open() as client:
        found = [find_matrix(client, one) for one in ids]
        for one in found:
            client.delete(one)
    if service.as_json:
        display.print_json({"removed": found})
