"""`wavetrim fetch`: the product of a job."""

import json
from functools import partial
from typing import Annotated, Final

import typer

from wavetrim.service.cli import options

EXAMPLES: Final = """[bold]Examples[/]

wavetrim fetch 0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a -o C.npy
wavetrim fetch $JOB -o C.npy --wait
"""


def fetch(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    *,
    output: options.Output,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Download the product of a job that has succeeded.

    After a lost connection the download goes on where it broke. The file appears once it is
    complete and its length and digest are right.
    """
    from wavetrim.service.cli.jobs import find_job, open_client, wait_for_job
    from wavetrim.service.cli.matrix_files import check_output
    from wavetrim.service.cli.terminal.display import open_notes, show_bytes

    check_output(output, {})
    notes = open_notes()
    with open_client(url, api_key) as client:
        posted = client.job(find_job(client, job))
        if wait:
            wait_for_job(posted, notes)
        with show_bytes(notes) as move:
            size_bytes = posted.download(output, on_progress=partial(move, f"fetch {output.name}"))
    if as_json:
        typer.echo(
            json.dumps({"job": posted.id, "file": str(output), "bytes": size_bytes}, indent=2)
        )
