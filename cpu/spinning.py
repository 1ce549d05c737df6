"""Whether other threads of this process keep its cores busy, as BLAS's do after a product of NumPy.

They spin for 0.1 s in case another product comes. Our threads then find no core, while NumPy's next
product finds its threads awake. The CPU time that the process uses between two of our products
shows it.
"""

import threading
import time
from typing import Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.native.tuned import AWAKE_SECONDS

_LEAST_SECONDS: Final = 3e-4
"""Least time between two products to judge by; chosen. After less, the last judgement still counts
for _SPINNING_SECONDS."""

_SPINNING_SECONDS: Final = 0.1
"""Time for which OpenBLAS's threads spin, its default."""

_SHARE: Final = 1 / 4
"""Least share of the cores that spinning threads use; chosen."""


class SpinningThreads:
    """Looks for other threads at work between products. Several threads may use it at once."""

    def __init__(self) -> None:
        self._cores = usable_cores()
        self._thread, self._began, self._used, self._own = 0, 0.0, 0.0, 0.0
        self._seen = 0.0

    def mark(self) -> None:
        """Note that a product has ended in the calling thread.

        One of NumPy need not be noted: its threads spin.
        """
        self._note(time.monotonic(), time.thread_time(), time.process_time())

    def are_there(self) -> bool:
        """Whether other threads have been busy since the last product."""
        now = time.monotonic()
        seconds = now - self._began
        if self._thread == threading.get_ident() and seconds >= _LEAST_SECONDS:
            own, used = time.thread_time(), time.process_time()
            others_seconds = used - self._used - (own - self._own)
            own_pool_seconds = self._cores * AWAKE_SECONDS  # our own threads spin, too
            is_seen = others_seconds > _SHARE * self._cores * seconds + own_pool_seconds
            self._seen = now if is_seen else 0.0
            self._note(now, own, used)
        return now - self._seen < _SPINNING_SECONDS

    def _note(self, began: float, own: float, used: float) -> None:
        self._thread, self._began = threading.get_ident(), began
        self._own, self._used = own, used
