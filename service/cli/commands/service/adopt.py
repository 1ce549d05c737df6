"""`wavetrim adopt`: take the matrices of a data folder into a database that does not know them."""

from typing import Final

import typer

from wavetrim.service.cli.options import DataDir

EXAMPLES: Final = """[bold]Examples[/]

wavetrim adopt
wavetrim adopt --data-dir /var/lib/wavetrim
WAVETRIM_DATABASE_URL=postgresql://... wavetrim adopt
"""


def adopt(
    *,
    data_dir: DataDir = None,
) -> None:
    """Register the matrices of a data folder in the database in use, and give both the same id.

    For a data folder whose database was lost or replaced, and for files that a start has moved to
    `lost`. Files that are not whole .npy files stay as they are. The service must not run.
    """
    from wavetrim.service.cli.machine import load_settings
    from wavetrim.service.storage.database.claim import Claiming
    from wavetrim.service.storage.folder.adoption import adopt as adopt_files
    from wavetrim.service.storage.folder.data_folder import claim_folder

    settings = load_settings(data_dir=data_dir)
    with claim_folder(settings.data_dir):
        database = Claiming(settings.database, settings.data_dir)()
        try:
            done = adopt_files(database, settings.data_dir, settings.matrix_dir)
        finally:
            database.dispose()
    for path, reason in done.refused:
        typer.echo(f"left as it is: {path}: {reason}", err=True)
    for matrix_id in done.missing:
        typer.echo(f"without a file: matrix {matrix_id}", err=True)
    typer.echo(
        f"adopted {len(done.adopted)}, restored {len(done.restored)}, "
        f"left as they are {len(done.refused)}, without a file {len(done.missing)}; "
        f"database and folder have the id {done.identity}"
    )
