"""The watchdog: detects a GPU without progress.

A hung kernel cannot be stopped; only the end of the process helps. A thread of the watchdog reads
the clock now and then. The computing thread only stores the time of its progress, at no measurable
cost.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

TIMES_EXPECTED: Final = 20.0
"""Allowed time without progress, as a multiple of a product's predicted time. Chosen: a plan
without calibration may be far off, and another process may use the GPU, too."""


@dataclass(slots=True, eq=False)
class Watched:
    """One part of a product that a GPU computes, while it is watched."""

    limit_seconds: float
    noted: float = field(default_factory=time.monotonic)

    def note_progress(self) -> None:
        """Record progress."""
        self.noted = time.monotonic()


class Watchdog:
    """Watches the parts of all products that run, each by itself. Thread-safe.

    Args:
        stall_seconds: Time that any product may be without progress.
        expire: Called with the seconds without progress, in the watchdog's thread.
    """

    def __init__(self, stall_seconds: float, expire: Callable[[float], None]) -> None:
        self._stall_seconds = stall_seconds
        self._expire = expire
        self._parts: set[Watched] = set()
        self._lock = threading.Lock()
        self._watching = threading.Event()
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    @contextmanager
    def watch(self, expected_seconds: float) -> Iterator[Watched]:
        """Watch a part of a product with this predicted time while the block runs."""
        part = Watched(max(self._stall_seconds, TIMES_EXPECTED * expected_seconds))
        with self._lock:
            self._parts.add(part)
            self._watching.set()
        try:
            yield part
        finally:
            with self._lock:
                self._parts.discard(part)
                if not self._parts:
                    self._watching.clear()

    def _look(self) -> None:
        while True:
            self._watching.wait()
            time.sleep(self._stall_seconds / 10)
            with self._lock:
                parts = tuple(self._parts)
            for part in parts:
                still_seconds = time.monotonic() - part.noted
                if still_seconds > part.limit_seconds:
                    part.limit_seconds = float("inf")
                    self._expire(still_seconds)
