"""What else the machine does while products are measured."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

from wavetrim.cpu.threads import list_ancestors, parse_membership

Condition = Literal["quiet", "after-numpy", "busy", "half"]
"""quiet: nothing else computes, and BLAS's threads sleep. after-numpy: a NumPy product has just
ended, and its threads still spin. busy: as many other processes compute as there are cores. half: a
control group gives the process half the time of its cores."""

CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)

_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
_PERIOD_US: Final = 100_000

_BURN: Final = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
print(flush=True)
while True: pass
"""
"""A program that computes until its standard input is closed, as when its parent ends. It ignores
Ctrl-C, which all processes of a terminal get: its parent answers that."""


class CannotMake(Exception):
    """This machine cannot be brought into a condition; the message says why."""


@contextmanager
def burn_cores(count: int) -> Iterator[list[int]]:
    """Let `count` other processes compute until the block ends, or this process does.

    Yields:
        Their process ids, once all of them compute.
    """
    command = (sys.executable, "-S", "-E", "-c", _BURN)
    with ExitStack() as stack:
        burners = []
        for _ in range(count):
            burner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(burner)  # which waits for its end
            stack.callback(burner.kill)
            burners.append(burner)
        for burner in burners:
            assert burner.stdout is not None
            burner.stdout.readline()
        yield [burner.pid for burner in burners]


@contextmanager
def make_half_group(cores: int) -> Iterator[tuple[str, ...]]:
    """A control group, version 1 or 2, with half the time of `cores` cores.

    Its processes must have ended when the block ends.

    Yields:
        A command that runs the command after it in the group, from its start.
    """
    folder = _make_group()
    try:
        try:
            _limit_group(folder, quota_us=cores * _PERIOD_US // 2)
        except OSError as error:
            raise CannotMake(f"a control group's time cannot be limited: {error}") from error
        enter = f'echo $$ >"{folder}/cgroup.procs" && exec "$@"'
        yield "sh", "-c", enter, "sh"
    finally:
        folder.rmdir()


def _make_group() -> Path:
    """A new group below this process's own, or below the first group above it that allows one."""
    name, errors = f"wavetrim-bench-{os.getpid()}", ["none is mounted"]
    mount, is_version_1 = (_V1, True) if _V1.is_dir() else (_V2, False)
    for _, controllers, group in parse_membership(Path("/proc/self/cgroup").read_text()):
        if is_version_1 == ("cpu" in controllers):
            for parent in list_ancestors(mount, group):
                try:
                    (parent / name).mkdir()
                except OSError as error:
                    errors.append(str(error))
                else:
                    return parent / name
    raise CannotMake(f"no control group can be made: {errors[-1]}")


def _limit_group(folder: Path, *, quota_us: int) -> None:
    if (folder / "cpu.cfs_quota_us").exists():
        (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        return
    if not (folder / "cpu.max").exists():
        (folder.parent / "cgroup.subtree_control").write_text("+cpu")
    (folder / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
