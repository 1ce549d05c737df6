"""`wavetrim matrices`: list the service's matrices."""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Final

import typer

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from wavetrim.client import Matrix

EXAMPLES: Final = """[bold]Examples[/]

wavetrim matrices
wavetrim matrices --json
"""


def matrices(
    *,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """List the matrices that the service stores, newest first.

    The last column counts the queued and running jobs that need a matrix.
    """
    from wavetrim.service.cli.jobs import open_client

    with open_client(url, api_key) as client:
        found = [*client.matrices()]
    if as_json:
        typer.echo(json.dumps([matrix.document for matrix in found], indent=2))
    else:
        _print_matrices(found)


def _print_matrices(found: "list[Matrix]") -> None:
    from rich.table import Table

    from wavetrim.service.cli.terminal.display import open_output
    from wavetrim.service.cli.terminal.units import format_bytes

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("matrix", "shape", "type", "size", "created", "jobs"):
        right = name in ("size", "jobs")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for matrix in found:
        rows, columns = matrix.shape
        created = datetime.fromisoformat(matrix.document["created_at"]).astimezone()
        table.add_row(
            matrix.id,
            f"{rows}x{columns}",
            matrix.dtype,
            format_bytes(matrix.size_bytes),
            created.strftime("%m-%d %H:%M"),
            str(len(matrix.document["used_by"]) or ""),
        )
    open_output().print(table if found else "no matrices")
