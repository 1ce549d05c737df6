"""Which devices are in use: each works at one product at a time.

Products on different devices run at the same time. A product takes its devices in a fixed order, so
that products never wait for each other in a circle.
"""

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from wavetrim.scheduler.planning.lanes import Lane


class Occupancy:
    """The devices of an executor. Thread-safe.

    Args:
        devices: All of them.
    """

    def __init__(self, devices: Iterable[int]) -> None:
        self._locks = {device: threading.Lock() for device in sorted(devices)}
        self._changing = threading.Lock()
        self._stays: list[Stay] = []

    @property
    def is_empty(self) -> bool:
        """Whether no device works."""
        return not self._stays

    def hold(self, lane: Lane) -> "Stay":
        """Hold these devices for one product while the block runs; waits until they are free."""
        return Stay(self, lane)

    def enter(self, stay: "Stay", lane: Lane) -> None:
        """Take the devices of a lane."""
        for device in sorted(lane):
            self._locks[device].acquire()
        with self._changing:
            if self._stays:
                stay.was_alone = False
                for other in self._stays:
                    other.was_alone = False
            self._stays.append(stay)

    def leave(self, stay: "Stay", lane: Lane) -> None:
        """Give them back."""
        with self._changing:
            self._stays.remove(stay)
        for device in lane:
            self._locks[device].release()


class Stay:
    """One product's time on its devices.

    Attributes:
        was_alone: Whether no other product has run at the same time. Others take bandwidth and
            cores, so a time measured beside them says little.
    """

    __slots__ = ("_lane", "_occupancy", "was_alone")

    def __init__(self, occupancy: Occupancy, lane: Lane) -> None:
        self._occupancy, self._lane = occupancy, lane
        self.was_alone = True

    def __enter__(self) -> Self:
        self._occupancy.enter(self, self._lane)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._occupancy.leave(self, self._lane)
