"""The folders of a service and of a caller's own process. Imports nothing that takes long."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

DATA_DIR: Final = Path("wavetrim-data")
"""Folder of the database and the matrices, where no setting names one."""


def make_absolute(path: Path) -> Path:
    """A path from the root; as it is where the working folder is gone.

    Raises:
        ValueError: It begins with a home folder that is not known.
    """
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"it is {path}; it must be an absolute path here: {error}") from error
    with suppress(OSError):
        path = path.absolute()
    return path


def find_user_cache() -> Path:
    """Where what is compiled is kept, if no setting names a folder."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if root.is_absolute():
        return root / "wavetrim"
    try:
        return Path.home() / ".cache" / "wavetrim"
    except RuntimeError:  # neither HOME nor an account, as for a container's user by number
        return Path(os.devnull) / "wavetrim"  # nothing can be written there
