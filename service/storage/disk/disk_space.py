"""What a file system has left for matrices: all but a reserve.

The reserve is for the database and its log. On a full disk they must go on: matrices can be deleted
and jobs cancelled only while the database can be written to.
"""

import os
from pathlib import Path
from typing import Final

from wavetrim.service.storage.errors import StorageFull

RESERVE_BYTES: Final = 64 * 2**20
"""Space that must stay free on the file system of the matrices; chosen."""


def measure_disk(folder: Path, reserve_bytes: int) -> dict[str, int]:
    """How full the file system of a folder is, by the names that `/v1/devices` documents."""
    found = os.statvfs(folder)
    return {
        "size_bytes": found.f_blocks * found.f_frsize,
        "used_bytes": (found.f_blocks - found.f_bfree) * found.f_frsize,
        "free_bytes": max(0, count_usable_bytes(folder, reserve_bytes)),
    }


def count_usable_bytes(folder: Path, reserve_bytes: int) -> int:
    """Bytes that new files in a folder may take; negative when the reserve is in use."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize - reserve_bytes


def refuse_disk(
    size_bytes: int, usable_bytes: int, folder: Path, reserve_bytes: int
) -> StorageFull:
    """The refusal of a matrix for which the file system has too little left."""
    limit = (
        f"at most the {max(usable_bytes, 0)} bytes that {folder} has free beside the "
        f"reserve of {reserve_bytes}"
    )
    return StorageFull("matrix size", size_bytes, limit)
