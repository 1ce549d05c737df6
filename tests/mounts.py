"""Small file systems, for tests of what happens when a disk is full."""

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import execute


@contextmanager
def mounted_tmpfs(size):
    """A file system in memory of a size such as "8m"; skips the test where none may be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="wavetrim-disk-"))
    mounted = execute(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder])
    try:
        if mounted.returncode != 0:
            pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
    finally:
        folder.rmdir()
