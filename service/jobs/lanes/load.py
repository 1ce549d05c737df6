"""What an engine has to do: its products, where it computes them, and when they should end."""

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.planning.device_sets import DeviceSet
from wavetrim.service.engine.fleet import AnyEngine
from wavetrim.service.jobs.lanes.attempt import Attempt

AHEAD: Final = 8
"""Small products that the engine may have at once; chosen."""

_LEAST_SECONDS: Final = 1e-3
"""Least time that a product is expected to go on until it has ended; chosen."""


@dataclass(slots=True, eq=False)
class EngineRun:
    """A product that an engine has. Times are those of the monotonic clock.

    Attributes:
        attempt: The product.
        engine: The engine.
        job: The id that the engine knows it by.
        seconds: How long it should take.
        lane: The devices that work at it; None while that is not known, or for all.
        began: When it was sent.
        ends_at: When it should end.
        is_alone: Whether the engine had nothing else to do when it was sent.
        is_stopped: Whether the engine was asked to stop it.
    """

    attempt: Attempt
    engine: AnyEngine
    job: str
    seconds: float
    lane: DeviceSet | None = None
    began: float = 0.0
    ends_at: float = 0.0
    is_alone: bool = False
    is_stopped: bool = False

    def cancel(self) -> None:
        """Ask the engine to stop."""
        self.is_stopped = True
        self.engine.cancel(self.job)

    async def end_engine(self, reason: str) -> None:
        """End the engine by force; another one is started."""
        self.is_stopped = True
        await self.engine.restart(reason)


class Load:
    """What one engine has to do.

    Attributes:
        runs: Its products, in the order in which they were sent.
    """

    def __init__(self) -> None:
        self.runs: list[EngineRun] = []
        self._large = 0

    def add(self, run: EngineRun) -> None:
        """A product was sent to the engine: it comes after what its devices have to do."""
        run.began, run.is_alone = time.monotonic(), not self.runs
        self.runs.append(run)
        run.ends_at = self._find_begin(run) + run.seconds
        self._large += not run.attempt.is_small

    def begin(self, run: EngineRun, lane: DeviceSet, seconds: float) -> None:
        """The engine says which devices work at a product, and how long it should take."""
        run.lane = lane
        run.ends_at = self._find_begin(run) + seconds

    def _find_begin(self, run: EngineRun) -> float:
        """When a product begins: once its devices have done what was sent before."""
        now = time.monotonic()
        earlier = itertools.takewhile(lambda other: other is not run, self.runs)
        begins = [
            max(now + _LEAST_SECONDS, other.ends_at)
            for other in earlier
            if run.lane is None or other.lane is None or run.lane & other.lane
        ]
        return max(begins, default=now)

    def remove(self, run: EngineRun) -> None:
        """A product has ended."""
        self.runs.remove(run)
        self._large -= not run.attempt.is_small

    def has_room(self, attempt: Attempt) -> bool:
        """Whether one more product may be sent: a few small ones, or a single other one."""
        if not self.runs:
            return True
        return attempt.is_small and self._large == 0 and len(self.runs) < AHEAD

    @property
    def is_full(self) -> bool:
        """Whether no product has room."""
        return self._large > 0 or len(self.runs) >= AHEAD

    @property
    def has_many_small(self) -> bool:
        """Whether the engine has as many small products as it may."""
        return len(self.runs) - self._large >= AHEAD

    def may_follow(self, lane: DeviceSet) -> bool:
        """Whether one more product may be sent to some devices, of which each has one at most.

        None may while the engine has not said which devices another product takes.
        """
        lanes = [run.lane for run in self.runs]
        return (
            all(sum(one is not None and device in one for one in lanes) < 2 for device in lane)
            and None not in lanes
        )

    def find_busy(self) -> float:
        """Seconds that the engine should be busy; more than 0 while it has a product."""
        if not self.runs:
            return 0.0
        last = max(run.ends_at for run in self.runs)
        return max(_LEAST_SECONDS, last - time.monotonic())

    def list_busy(self, devices: Iterable[int]) -> dict[int, float]:
        """Seconds that each device should be busy; free devices are left out. Thread-safe.

        A late product is expected to go on for as long as it is late. So the longer it hangs, the
        sooner others choose another device.

        Args:
            devices: All devices of the engine.
        """
        now, busy = time.monotonic(), dict.fromkeys(devices, 0.0)
        for run in list(self.runs):  # they come and go while a thread asks for metrics
            left_seconds = max(_LEAST_SECONDS, abs(run.ends_at - now))
            for device in busy if run.lane is None else run.lane:
                busy[device] = max(busy.get(device, 0.0), left_seconds)
        return {device: seconds for device, seconds in busy.items() if seconds}
