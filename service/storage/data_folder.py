"""The data folder belongs to one service at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wavetrim.service.errors import SettingRefused


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Makes the folder if it is missing and keeps other services out of it.

    The claim ends with the process, however it ends.

    Raises:
        SettingRefused: Another service has the folder, or it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / "service.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        limit = f"a folder that can be written to ({error.strerror})"
        raise SettingRefused("data_dir", str(folder), limit) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            limit = "a folder that no other running service uses"
            raise SettingRefused("data_dir", str(folder), limit) from error
        yield
    finally:
        os.close(file)
