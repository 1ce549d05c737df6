"""CUDA events: a pool of them, and waiting without delaying the device.

A blocking event makes the device raise an interrupt, which stops the copy engine for 20 µs (H200).
For other events the driver's own wait keeps a core busy. So a wait polls and naps.
"""

import time
from ctypes import addressof, c_void_p
from functools import cache
from typing import Any, Final

from wavetrim.native.tuned import COPIERS_AWAKE_SECONDS, NAP_SECONDS

_NOT_READY: Final = 600  # cudaErrorNotReady
_MOST_EVENTS: Final = 1024
"""Most events that stay for the next product. Chosen: only very many steps need more."""


class EventPool:
    """Events for one product after another, because creating one takes longer than recording it.

    Args:
        timed: Whether the time between two events can be read. Each such event delays its stream
            by some microseconds (H200).
    """

    def __init__(self, *, timed: bool = True) -> None:
        self._timed = timed
        self._events: list[Any] = []
        self._handles: Any = (c_void_p * 0)()
        self._taken = 0

    def take(self) -> Any:
        """A CuPy event of the current device that has not been taken since the last `reclaim`."""
        if self._taken == len(self._events):
            from cupy.cuda import Event

            self._events.append(Event(disable_timing=not self._timed))
        event = self._events[self._taken]
        self._taken += 1
        return event

    def reserve(self, count: int) -> int:
        """Address of an array of at least `count` events, as handles of the driver.

        They are all events of the pool, so no other product may use it at the same time.
        """
        if len(self._handles) < count:
            taken, self._taken = self._taken, len(self._events)
            while len(self._events) < count:
                self.take()
            self._taken = taken
            self._handles = (c_void_p * len(self._events))(*(one.ptr for one in self._events))
        return addressof(self._handles)

    def reclaim(self) -> None:
        """Make all events available again. No stream may record or wait for any of them."""
        if len(self._events) > _MOST_EVENTS:
            del self._events[_MOST_EVENTS:]
            self._handles = (c_void_p * 0)()
        self._taken = 0


@cache
def find_runtime() -> Any:
    """CuPy's CUDA runtime, cached: an import statement takes as long as a CUDA call."""
    from cupy.cuda import runtime

    return runtime


def has_passed(event: Any) -> bool:
    """Whether a CuPy event has passed. CuPy's own `done` hides a failure of the device.

    Raises:
        CUDARuntimeError: The device failed.
    """
    runtime = find_runtime()
    status: int = runtime.eventQuery(event.ptr)
    if status == 0:
        return True
    if status != _NOT_READY:
        raise runtime.CUDARuntimeError(status)
    return False


def await_event(event: Any, *, awake: bool = False) -> None:
    """Wait until a CuPy event has passed.

    Args:
        event: The event.
        awake: Whether to poll without naps, which occupies a core.

    Raises:
        CUDARuntimeError: The device failed.
    """
    if awake:
        event.synchronize()
        return
    until = time.perf_counter() + COPIERS_AWAKE_SECONDS
    while not has_passed(event):
        time.sleep(0 if time.perf_counter() < until else NAP_SECONDS)
