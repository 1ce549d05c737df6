"""`wavetrim backup`: copy all that is stored while the service runs."""

from pathlib import Path
from typing import Annotated, Final

import typer

from wavetrim.service.cli.options import DataDir

EXAMPLES: Final = """[bold]Examples[/]

wavetrim backup /backup/wavetrim
wavetrim backup --data-dir /var/lib/wavetrim /backup/wavetrim
"""


def backup(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="New, empty, or an earlier backup of the same service."
        ),
    ],
    *,
    data_dir: DataDir = None,
) -> None:
    """Copy the data folder and its database to another folder of this machine.

    The service may run. Matrices that an earlier backup has are not copied again, and those that
    were deleted since then are removed from it. A PostgreSQL database is not in the copy: dump it
    first. Exits with 1 if a matrix's file is damaged; all others are copied.
    """
    from wavetrim.service.cli.exits import CommandFailed
    from wavetrim.service.cli.machine import load_settings
    from wavetrim.service.storage.folder.backup import back_up
    from wavetrim.service.storage.folder.data_folder import keep_private

    settings = load_settings(data_dir=data_dir)
    with keep_private():
        done = back_up(settings.database, settings.data_dir, settings.matrix_dir, folder)
    for matrix_id, reason in done.damaged:
        typer.echo(f"not copied: matrix {matrix_id}: {reason}", err=True)
    typer.echo(
        f"copied {done.copied}, kept {done.kept}, removed {done.removed} matrices"
        + ("" if done.has_database else "; the database is its server's: pg_dump copies it")
    )
    if done.damaged:
        raise CommandFailed(f"{len(done.damaged)} matrices are damaged and not in the backup")
