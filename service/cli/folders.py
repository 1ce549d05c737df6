"""Folders that a command writes into when it has measured: looked at before, not after."""

import tempfile
from pathlib import Path

from wavetrim.service.cli.exits import CommandFailed, ExitCode


def check_folder(option: str, folder: Path) -> None:
    """Make a folder, if it is not there, and see that files can be written into it.

    Raises:
        CommandFailed: They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        limit = f"a folder that can be written to ({error.strerror})"
        message = f"{option} is '{folder}'; it must be {limit}"
        raise CommandFailed(message, ExitCode.REFUSED) from error
