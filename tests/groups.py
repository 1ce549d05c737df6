"""Control groups: with little memory, for tests of what happens then, and made up in files."""

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import wait_until

_GROUPS = Path("/sys/fs/cgroup")


def write_groups(root, files):
    """Write files as control groups have them, such as "proc/self/cgroup"; returns their root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group, by its folder."""

    folder: Path

    @property
    def prefix(self):
        """A command that runs the command after it in the group."""
        return "sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh"

    def count_kills(self):
        """How many of its processes were killed for want of memory."""
        events = ("memory.oom_control", "memory.events")
        text = next((self.folder / name).read_text() for name in events if self._has(name))
        return next(int(line.split()[1]) for line in text.splitlines() if "oom_kill " in line)

    def _has(self, name):
        return (self.folder / name).exists()


@contextmanager
def memory_group(limit_bytes):
    """A control group of version 1 or 2 with a limit of memory; skips where none can be made.

    Its processes must be ending when the block ends.
    """
    if (_GROUPS / "memory" / "memory.limit_in_bytes").exists():
        parent, limit = _GROUPS / "memory", "memory.limit_in_bytes"
    else:
        parent, limit = _GROUPS, "memory.max"
    folder = parent / f"wavetrim-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            (folder / limit).write_text(str(limit_bytes))
        except OSError as error:
            pytest.skip(f"no control group's memory can be limited here: {error}")
        with suppress(OSError):  # version 2 counts it apart
            (folder / "memory.swap.max").write_text("0")
        yield MemoryGroup(folder)
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), 30)
        folder.rmdir()
