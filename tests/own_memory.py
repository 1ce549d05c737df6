"""The own memory of a process: anonymous pages, not those that it shares."""

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.processes import list_family

_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class Growth:
    """Growth of the own memory of a process and its children."""

    before_bytes: int
    most_bytes: int

    @property
    def grown_bytes(self):
        return self.most_bytes - self.before_bytes


@contextlib.contextmanager
def watch_growth(pid):
    """Measure a process and its children until the block ends."""
    before = measure_own(pid)
    growth = Growth(before, before)
    ended = threading.Event()

    def watch():
        while not ended.wait(_PAUSE_SECONDS):
            growth.most_bytes = max(growth.most_bytes, measure_own(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield growth
    finally:
        ended.set()
        watcher.join()


def measure_own(pid):
    """Bytes of anonymous memory of a process and its descendants.

    Shared memory and mapped files do not count (RssShmem, RssFile); private changes of mapped files
    are anonymous.
    """
    return sum(_read_status(one, "RssAnon") for one in list_family(pid))


def measure_resident(pid):
    """All bytes of a process that are in memory, shared ones among them."""
    return _read_status(pid, "VmRSS")


def _read_status(pid, name):
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
