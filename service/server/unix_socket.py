"""A Unix socket that belongs to one service at a time, and to its user alone."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.lock_file import LockTaken, describe_process, take_lock

BACKLOG: Final = 2048
"""Connections that may wait to be accepted; a Unix socket refuses any more, unlike TCP."""

_FIELD: Final = "unix_socket"
_MAX_PATH_BYTES: Final = 107
"""The longest path in the kernel's `sockaddr_un`."""


@contextmanager
def claim_socket(path: Path, *, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    """Listens on a Unix socket at `path`, mode 0600, and removes it at the end.

    A socket that an ended service has left is replaced. A lock in a file of its own, `<path>.lock`,
    tells it from one that is in use; the lock ends with the process, however it ends, and its file
    stays.

    Args:
        path: Where the socket is; its folder is made, mode 0700, when it is missing.
        kind: SOCK_STREAM, or SOCK_SEQPACKET for one that keeps packets apart.

    Raises:
        SettingRefused: Somebody else listens there, or something else lies there.
    """
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise SettingRefused(_FIELD, str(path), f"a path of at most {_MAX_PATH_BYTES} bytes")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = take_lock(path.with_name(f"{path.name}.lock"), describe_process())
    except LockTaken as taken:
        limit = "a path where no other running service listens"
        raise SettingRefused(_FIELD, str(path), limit) from taken
    except OSError as error:
        raise _explain(path, error) from error
    try:
        with socket.socket(socket.AF_UNIX, kind) as listener:
            # Before it is bound: at no moment may another user connect.
            os.fchmod(listener.fileno(), 0o600)
            try:
                _remove_stale(path, kind)
                listener.bind(str(path))
            except OSError as error:
                raise _explain(path, error) from error
            try:
                listener.listen(BACKLOG)
                yield listener
            finally:
                path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _remove_stale(path: Path, kind: int) -> None:
    """Removes the socket of an ended service.

    Raises:
        SettingRefused: It is no socket, or somebody who does not know our lock listens on it.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SettingRefused(_FIELD, str(path), "a path that is free; there is a file already")
    with socket.socket(socket.AF_UNIX, kind) as caller:
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise SettingRefused(_FIELD, str(path), "a path where nobody else listens")


def _explain(path: Path, error: OSError) -> SettingRefused:
    limit = f"a path where a socket can be made ({error.strerror or error})"
    return SettingRefused(_FIELD, str(path), limit)
