"""What a file system has left for matrices: its free space less a reserve.

The reserve belongs to the database, its log and whatever else must go on when the disk is full: a
matrix can be deleted and a job cancelled only while the database can be written to.
"""

import os
from pathlib import Path


def count_usable_bytes(folder: Path, reserve_bytes: int) -> int:
    """Bytes that new files in a folder may take; negative when the reserve is in use."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize - reserve_bytes
