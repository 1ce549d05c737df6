"""Notices a GPU that makes no progress: a hung kernel answers nobody, and cannot be stopped.

All that helps is to end the process. Its thread looks at a clock; the computing thread only notes
the time, which costs nothing that could be measured.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

TIMES_EXPECTED: Final = 20.0
"""So many times the seconds that a product was planned to take may pass without progress: a plan
without calibration may be far off, another process may use the GPU, too; chosen, not measured."""


class Watchdog:
    """Watches one product at a time.

    Args:
        stall_seconds: So long any product may make no progress.
        expire: Called, in a thread of the watchdog's, with the seconds that were without any.
    """

    def __init__(self, stall_seconds: float, expire: Callable[[float], None]) -> None:
        self._stall_seconds = stall_seconds
        self._expire = expire
        self._limit_seconds: float | None = None
        self._noted = 0.0
        self._watching = threading.Event()
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    @contextmanager
    def watch(self, expected_seconds: float) -> Iterator[None]:
        """Watch a product that was planned to take so long."""
        self._noted = time.monotonic()
        self._limit_seconds = max(self._stall_seconds, TIMES_EXPECTED * expected_seconds)
        self._watching.set()
        try:
            yield
        finally:
            self._limit_seconds = None
            self._watching.clear()

    def note_progress(self) -> None:
        """The product has come further."""
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
