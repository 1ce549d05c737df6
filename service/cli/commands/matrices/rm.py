"""`wavetrim rm`: remove matrices from the service."""

import json
from typing import Annotated, Final

import typer

from wavetrim.service.cli import options

EXAMPLES: Final = """[bold]Examples[/]

wavetrim rm 5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e
wavetrim rm $A $B --json
"""


def rm(
    matrices: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of matrices.")],
    *,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Remove matrices from the service.

    They are removed in this order. The command ends at the first that does not exist or that a job
    needs; those before it are removed.
    """
    from wavetrim.service.cli.jobs import find_matrix, open_client

    with open_client(url, api_key) as client:
        matrices = [find_matrix(client, matrix) for matrix in matrices]
        for matrix in matrices:
            client.delete(matrix)
    if as_json:
        typer.echo(json.dumps({"removed": matrices}, indent=2))
