"""What an engine has to do: its products, where it computes them, and when they should end."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.planning.lanes import Lane
from wavetrim.service.jobs.lanes.turn import Turn

AHEAD: Final = 8
"""So many small products may be with the engine at once."""

_LEAST_SECONDS: Final = 1e-3
"""So long a product that has not ended is expected to last, at least."""


@dataclass(slots=True)
class _Run:
    """A product, the devices that work at it (None: perhaps all), and when it should end."""

    turn: Turn
    ends_at: float
    lane: Lane | None


class Load:
    """What one engine has to do.

    Attributes:
        runs: Its products, by job. Times are those of the monotonic clock.
    """

    def __init__(self) -> None:
        self.runs: dict[str, _Run] = {}
        self._large = 0

    def add(self, job: str, turn: Turn, seconds: float, lane: Lane | None = None) -> bool:
        """A product was sent to it; tells whether it had nothing else to do.

        Args:
            job: The product.
            turn: Its turn.
            seconds: What it should take.
            lane: The devices that work at it; None for all, after what the engine has already.
        """
        was_idle = not self.runs
        begins_in = self.find_busy() if lane is None else 0.0
        self.runs[job] = _Run(turn, time.monotonic() + begins_in + seconds, lane)
        self._large += not turn.is_small
        return was_idle

    def begin(self, job: str, lane: Lane, seconds: float) -> None:
        """The engine says which devices work at a product, and how long it should take."""
        run = self.runs[job]
        run.lane, run.ends_at = lane, time.monotonic() + seconds

    def remove(self, job: str) -> None:
        """A product has ended."""
        run = self.runs.pop(job)
        self._large -= not run.turn.is_small

    def has_room(self, turn: Turn) -> bool:
        """Whether this machine's engine may have one more: a few small ones, or a single one."""
        if not self.runs:
            return True
        return turn.is_small and self._large == 0 and len(self.runs) < AHEAD

    @property
    def has_many_small(self) -> bool:
        """Whether no more small products are sent ahead."""
        return len(self.runs) - self._large >= AHEAD

    def find_busy(self) -> float:
        """For how many seconds it should be busy: at least a little while it has something."""
        if not self.runs:
            return 0.0
        last = max(run.ends_at for run in self.runs.values())
        return max(_LEAST_SECONDS, last - time.monotonic())

    def list_busy(self, devices: Iterable[int]) -> dict[int, float]:
        """For how many seconds each device should be busy; those that are free are left out.

        A product that is late is expected to last as long again as it is late: nobody waits for
        ever for what should end in a moment.

        Args:
            devices: All devices of the engine.
        """
        now, busy = time.monotonic(), dict.fromkeys(devices, 0.0)
        for run in self.runs.values():
            left_seconds = max(_LEAST_SECONDS, abs(run.ends_at - now))
            for device in busy if run.lane is None else run.lane:
                busy[device] = max(busy.get(device, 0.0), left_seconds)
        return {device: seconds for device, seconds in busy.items() if seconds}


class Loads:
    """What each engine has to do, by the engine's id."""

    def __init__(self) -> None:
        self._loads: dict[str, Load] = {}

    def find(self, engine_id: str) -> Load:
        """What an engine has to do."""
        return self._loads.setdefault(engine_id, Load())
