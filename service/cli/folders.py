"""Checks a folder before a command measures, and not when it writes the results."""

import tempfile
from pathlib import Path

from wavetrim.service.cli.exits import CommandFailed, ExitCode


def check_folder(option: str, folder: Path) -> None:
    """Make a folder, if it does not exist, and make sure that files can be written into it.

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
