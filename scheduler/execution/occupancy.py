"""Which devices are in use: each works at one product at a time.

Products on different devices run at the same time. A product takes its devices in a fixed order, so
that products never wait for each other in a circle.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from wavetrim.scheduler.planning.device_sets import DeviceSet


class Occupancy:
    """The devices of an executor. Thread-safe."""

    def __init__(self, devices: Iterable[int]) -> None:
        self._locks = {device: threading.Lock() for device in devices}
        self._changing = threading.Lock()
        self._running = self._begun = 0

    @property
    def is_empty(self) -> bool:
        """Whether no device works."""
        return not self._running

    @contextmanager
    def acquire(self, devices: DeviceSet) -> Iterator[Callable[[], bool]]:
        """Acquire these devices for one product while the block runs; waits until they are free.

        The block gets a function that tells whether no other product has run until now. Others take
        bandwidth and cores, so a time measured beside them says little.
        """
        locks = [self._locks[device] for device in sorted(devices)]
        for lock in locks:
            lock.acquire()
        with self._changing:
            self._running += 1
            self._begun += 1
            began_alone, begun = self._running == 1, self._begun
        try:
            yield lambda: began_alone and self._begun == begun
        finally:
            with self._changing:
                self._running -= 1
            for lock in locks:
                lock.release()

    def free(self) -> None:
        """Release all devices, also those that an interrupt left acquired; no product may run."""
        self._running = 0
        for lock in self._locks.values():
            if lock.locked():
                lock.release()
