"""`wavetrim cancel`: stop a job."""

import json
from typing import Annotated, Final

import typer

from wavetrim.service.cli import options

EXAMPLES: Final = """[bold]Examples[/]

wavetrim cancel 0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a
"""


def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    *,
    as_json: options.Json = False,
    url: options.Url = options.LOCAL_URL,
    api_key: options.ApiKey = None,
) -> None:
    """Cancel a job: a queued one at once, a running one as soon as the engine lets it go."""
    from wavetrim.service.cli.jobs import find_job, open_client
    from wavetrim.service.cli.terminal.display import open_output

    with open_client(url, api_key) as client:
        found = client.cancel(find_job(client, job))
    if as_json:
        typer.echo(json.dumps(found.document, indent=2))
        return
    state = found.state if found.is_finished else f"{found.state}, and is told to stop"
    open_output().print(f"job {found.id}: {state}", markup=False)
