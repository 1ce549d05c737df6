"""CUDA events of products, kept for the next ones."""

from ctypes import addressof, c_void_p
from functools import cache
from typing import Any, Final

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
