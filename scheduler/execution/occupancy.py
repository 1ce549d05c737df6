"""Which devices are in use: each works at one product at a time.

Products on different devices run at the same time. A product takes its devices in a fixed order, so
that products never wait for each other in a circle.
"""

import threading
from collections.abc import Iterable
from typing import Self

from wavetrim.scheduler.planning.device_sets import DeviceSet


class Occupancy:
    """The devices of an executor. Thread-safe.

    Attributes:
        locks: One for each device.
        changing: Locked while `stays` changes.
        stays: The products that run now.
    """

    def __init__(self, devices: Iterable[int]) -> None:
        self.locks = {device: threading.Lock() for device in sorted(devices)}
        self.changing = threading.Lock()
        self.stays: list[Stay] = []

    @property
    def is_empty(self) -> bool:
        """Whether no device works."""
        return not self.stays

    def acquire(self, devices: DeviceSet) -> "Stay":
        """Acquire these devices for one product while the block runs; waits until they are free."""
        return Stay(self, devices)

    def free(self) -> None:
        """Release all devices, also those that an interrupt left acquired; no product may run."""
        with self.changing:
            self.stays.clear()
        for lock in self.locks.values():
            if lock.locked():
                lock.release()


class Stay:
    """One product's time on its devices.

    Attributes:
        was_alone: Whether no other product has run at the same time. Others take bandwidth and
            cores, so a time measured beside them says little.
    """

    __slots__ = ("_devices", "_occupancy", "was_alone")

    def __init__(self, occupancy: Occupancy, devices: DeviceSet) -> None:
        self._occupancy, self._devices = occupancy, devices
        self.was_alone = True

    def __enter__(self) -> Self:
        occupancy = self._occupancy
        for device in sorted(self._devices):
            occupancy.locks[device].acquire()
        with occupancy.changing:
            stays = occupancy.stays
            if stays:
                self.was_alone = False
                for other in stays:
                    other.was_alone = False
            stays.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        occupancy = self._occupancy
        with occupancy.changing:
            occupancy.stays.remove(self)
        for device in self._devices:
            occupancy.locks[device].release()
