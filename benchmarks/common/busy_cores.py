"""Cores that somebody else works on: a process for each of them, which never sleeps."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

_WORK: Final = "print(flush=True)\nwhile True: pass"


@contextmanager
def take_cores(count: int) -> Iterator[list[int]]:
    """Keep this many of the usable cores busy, the last ones, by processes of usual priority.

    Args:
        count: Cores.

    Yields:
        The processes, each of which may use one core only.
    """
    processes = []
    with ExitStack() as stack:
        for core in sorted(os.sched_getaffinity(0))[-count:] if count else ():
            process = subprocess.Popen([sys.executable, "-c", _WORK], stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {core})
            assert process.stdout is not None, "it was opened as a pipe"
            process.stdout.readline()  # it has begun
            processes.append(process.pid)
        yield processes
