"""What a file system has left for matrices: its free space less a reserve.

The reserve is for the database and its log. On a full disk they must go on: matrices can be deleted
and jobs cancelled only while the database can be written to.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 64 * 2**20
"""Space that must stay free on the file system of the matrices; chosen."""


@dataclass(frozen=True, slots=True)
class DiskState:
    """How full the file system of the matrices is.

    Attributes:
        size_bytes: Its size.
        used_bytes: Bytes of all files.
        free_bytes: Bytes that matrices may still take, without the reserve.
    """

    size_bytes: int
    used_bytes: int
    free_bytes: int


def measure_disk(folder: Path, reserve_bytes: int) -> DiskState:
    """How full the file system of a folder is."""
    found = os.statvfs(folder)
    return DiskState(
        size_bytes=found.f_blocks * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        free_bytes=max(0, count_usable_bytes(folder, reserve_bytes)),
    )


def count_usable_bytes(folder: Path, reserve_bytes: int) -> int:
    """Bytes that new files in a folder may take; negative when the reserve is in use."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize - reserve_bytes
