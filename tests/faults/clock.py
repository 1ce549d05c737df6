"""The wall clock steps, of the service and of its engine."""

import random
import struct
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.faults.fault import Fault
from tests.server import RunningServer

_SOURCE: Final = Path(__file__).with_name("clock_shift.c")
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


class ShiftedClock:
    """A wall clock of their own for the processes that are started with `prefix`.

    It is a library in C.

    Args:
        folder: Where the library and the shift are kept.
    """

    def __init__(self, folder: Path) -> None:
        library = folder / "clock_shift.so"
        command = ("cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl")
        subprocess.run(command, check=True)
        self._shift = folder / "shift"
        self._shift.write_bytes(bytes(8))
        self.prefix = ("env", f"LD_PRELOAD={library}", f"CLOCK_SHIFT={self._shift}")

    def shift(self, seconds: int) -> None:
        """From now on the clock is this number of seconds ahead of the real one."""
        with self._shift.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))


class SteppingClock(Fault):
    """The wall clock steps forwards and backwards."""

    told = "the wall clock steps by an hour to 400 days, forwards or backwards"

    def start(self, folder: Path, stack: ExitStack) -> RunningServer:
        """Start it with a clock of its own."""
        self._clock = ShiftedClock(folder)
        return RunningServer(
            folder / "data", prefix=self._clock.prefix, matrix_ttl_seconds=40, job_ttl_seconds=40
        )

    def strike(self, chance: random.Random) -> float:
        """Step several times."""
        for _ in range(3):
            by = chance.choice((_HOUR, _DAY, 40 * _DAY, 400 * _DAY))
            self._clock.shift(chance.choice((-1, 1)) * by)
            time.sleep(chance.uniform(0, 0.3))
        return time.monotonic()
