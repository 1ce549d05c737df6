"""The watchdog: detects a GPU without progress.

A hung kernel cannot be stopped; only the end of the process helps. A thread of the watchdog reads
the clock now and then. The computing thread only stores the time of its progress, which costs
nothing measurable.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

TIMES_EXPECTED: Final = 20.0
"""Time without progress that is allowed, as a multiple of a product's predicted time; chosen. A
plan without calibration may be far off, and another process may use the GPU, too."""


class Watchdog:
    """Watches one product at a time, whose parts may run in several threads.

    Args:
        stall_seconds: Time without progress that is allowed for any product.
        expire: Called with the seconds without progress, in the watchdog's thread.
    """

    def __init__(self, stall_seconds: float, expire: Callable[[float], None]) -> None:
        self._stall_seconds = stall_seconds
        self._expire = expire
        self._limit_seconds: float | None = None
        self._noted = 0.0
        self._parts = 0
        self._lock = threading.Lock()
        self._watching = threading.Event()
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    @contextmanager
    def watch(self, expected_seconds: float) -> Iterator[None]:
        """Watch a part of a product with this predicted time while the block runs."""
        with self._lock:
            self._parts += 1
            self._noted = time.monotonic()
            self._limit_seconds = max(self._stall_seconds, TIMES_EXPECTED * expected_seconds)
            self._watching.set()
        try:
            yield
        finally:
            with self._lock:
                self._parts -= 1
                if not self._parts:
                    self._limit_seconds = None
                    self._watching.clear()

    def note_progress(self) -> None:
        """Record progress of the product."""
        self._noted = time.monotonic()

    def _look(self) -> None:
        while True:
            self._watching.wait()
            time.sleep(self._stall_seconds / 10)
            limit_seconds = self._limit_seconds
            still_seconds = time.monotonic() - self._noted
            if limit_seconds is not None and still_seconds > limit_seconds:
                self._expire(still_seconds)
                self._limit_seconds = None
