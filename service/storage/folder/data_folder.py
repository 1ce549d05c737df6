"""The data folder belongs to one service at a time, and to its user alone."""

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.lock_file import LockTaken, describe_process, take_lock

logger = logging.getLogger(__name__)

_OTHERS: Final = 0o077
"""Permission bits of group and others."""

_FOLDERS: Final = ("matrices", "lost", "kernels", "profiles")


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Makes the folder if it is missing and keeps other services and other users out of it.

    Until the claim ends, the umask of this process and its children is 077: files of SQLite,
    compilers and the engine are for this user alone. The claim ends with the process, however that
    ends.

    Raises:
        SettingRefused: Another service has the folder, or it cannot be written to.
    """
    with keep_private(), _lock(folder):
        close_to_others(folder)
        yield


@contextmanager
def keep_private() -> Iterator[None]:
    """Within the block, files that this process makes are for its user alone."""
    umask = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(umask)


def close_to_others(folder: Path) -> None:
    """Takes the folder, and the service's folders in it, from group and others.

    Nobody reaches a file in a closed folder, whatever its own permissions are. Folders of another
    user, and one that all users share (sticky, such as /tmp), stay as they are; both are logged.
    """
    if folder.stat().st_mode & stat.S_ISVTX:
        logger.warning("%s is open to all users; give the service a folder of its own", folder)
    else:
        _take_from_others(folder)
    for name in _FOLDERS:
        _take_from_others(folder / name)


def _take_from_others(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s stays open to other users: %s", path, error.strerror)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Makes the folder, and holds its lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = take_lock(folder / "service.lock", folder)
    except LockTaken as taken:
        limit = (
            f"a folder that no other running service uses, as {taken} does; "
            f"this is {describe_process()}"
        )
        raise SettingRefused("data_dir", str(folder), limit) from taken
    except OSError as error:
        limit = f"a folder that can be written to ({error.strerror})"
        raise SettingRefused("data_dir", str(folder), limit) from error
    try:
        yield
    finally:
        os.close(file)
