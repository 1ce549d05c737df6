"""Commands for the data folder of a service on this machine: `backup` and `adopt`."""

from pathlib import Path

import typer

from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.cli.machine import load_settings
from wavetrim.service.cli.options import DataDir
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.claim import claim_database
from wavetrim.service.storage.folder import lost_files
from wavetrim.service.storage.folder.backup import back_up
from wavetrim.service.storage.folder.data_folder import claim_folder, keep_private


def backup(folder: Path, *, data_dir: DataDir = None) -> None:
    """Copy the data folder and its database to another folder.

    It is a folder of this machine. The service may run. Matrices that an earlier backup has are not
    copied again, and those that were deleted since then are removed from it. A PostgreSQL database
    is not in the copy: dump it first. Exits with 1 if a matrix's file is damaged; all others are
    copied.

    Options:
        folder (FOLDER): New, empty, or an earlier backup of the same service.

    Example:
        wavetrim backup backup-of-today
    """
    settings = load_settings(Settings, data_dir=data_dir)
    with keep_private():
        done = back_up(settings.database, settings.data_dir, settings.matrix_dir, folder)
    for matrix_id, reason in done.damaged:
        typer.echo(f"not copied: matrix {matrix_id}: {reason}", err=True)
    typer.echo(
        f"copied {done.copied}, kept {done.kept}, removed {done.removed} matrices"
        + ("" if done.has_database else "; the database is on its own server: copy it by pg_dump")
    )
    if done.damaged:
        raise CommandFailed(f"{len(done.damaged)} matrices are damaged and not in the backup")


def adopt(*, data_dir: DataDir = None) -> None:
    """Register a data folder's matrices in the database in use.

    Use it if the folder's database was lost or replaced, or if the service moved files to `lost`
    when it started. Folder and database get the same id. Files that are not whole .npy files stay
    as they are. The service must not run.

    Example:
        wavetrim adopt
    """
    settings = load_settings(Settings, data_dir=data_dir)
    with claim_folder(settings.data_dir):
        database = claim_database(settings.database, settings.data_dir)
        try:
            done = lost_files.adopt(database, settings.data_dir, settings.matrix_dir)
        finally:
            database.dispose()
    for path, reason in done.refused:
        typer.echo(f"left as it is: {path}: {reason}", err=True)
    for matrix_id in done.missing:
        typer.echo(f"without a file: matrix {matrix_id}", err=True)
    typer.echo(
        f"adopted {done.adopted}, restored {done.restored}, "
        f"left as they are {len(done.refused)}, without a file {len(done.missing)}; "
        f"database and folder have the id {done.identity}"
    )
