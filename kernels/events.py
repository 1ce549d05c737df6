"""Waiting for CUDA events without holding up the device or other threads.

An event that a thread can sleep for makes the device raise an interrupt: on an H200 each takes the
copy engine 20 µs. Without one the driver's own wait keeps a core busy.
"""

import time
from typing import Any, Final

_AWAKE_SECONDS: Final = 2e-4
_NAP_SECONDS: Final = 2e-5  # the system makes about 80 µs of it


def await_event(event: Any, *, awake: bool = False) -> None:
    """Wait until a CuPy event has passed.

    Args:
        event: The event.
        awake: Whether to look at it all the time, which costs a core and saves a nap's length.
    """
    if awake:
        event.synchronize()
        return
    until = time.perf_counter() + _AWAKE_SECONDS
    while not event.done:
        time.sleep(0 if time.perf_counter() < until else _NAP_SECONDS)
