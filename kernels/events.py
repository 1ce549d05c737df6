"""CUDA events: where they come from, and waiting for them without holding up the device.

An event that a thread can sleep for makes the device raise an interrupt: on an H200 each takes the
copy engine 20 µs. Without one the driver's own wait keeps a core busy.
"""

import time
from functools import cache
from typing import Any, Final

_NOT_READY: Final = 600  # cudaErrorNotReady
_AWAKE_SECONDS: Final = 2e-4
_NAP_SECONDS: Final = 2e-5  # the system makes about 80 µs of it


_KEPT_EVENTS: Final = 1024


class EventPool:
    """Events that one product after the other takes: to make one takes longer than to record it."""

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._taken = 0

    def take(self) -> Any:
        """A CuPy event of the current device that nobody else has taken since `reclaim`."""
        if self._taken == len(self._events):
            from cupy.cuda import Event

            self._events.append(Event())
        event = self._events[self._taken]
        self._taken += 1
        return event

    def reclaim(self) -> None:
        """Take all back. Nothing may wait for them any more, nor be about to record them."""
        del self._events[_KEPT_EVENTS:]
        self._taken = 0


@cache
def find_runtime() -> Any:
    """CuPy's CUDA runtime: found once, because an import takes as long as a call of CUDA's."""
    from cupy.cuda import runtime

    return runtime


def has_passed(event: Any) -> bool:
    """Whether a CuPy event has passed. CuPy's own `done` is False for ever where the device failed.

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
        awake: Whether to look at it all the time, which costs a core and saves a nap's length.

    Raises:
        CUDARuntimeError: The device failed.
    """
    if awake:
        event.synchronize()
        return
    until = time.perf_counter() + _AWAKE_SECONDS
    while not has_passed(event):
        time.sleep(0 if time.perf_counter() < until else _NAP_SECONDS)
