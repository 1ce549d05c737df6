"""Whether other threads of this process keep its cores busy, as BLAS's do after a product of NumPy.

They spin for a tenth of a second in case another product comes. Threads of ours then find no core,
while NumPy's next product finds its threads awake. The process's CPU time between two products of
ours tells.
"""

import threading
import time
from typing import Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.native.tuned import AWAKE_SECONDS

_LEAST_SECONDS: Final = 3e-4
"""Time between two products from which on it tells; chosen. After a shorter one, what the last one
told counts for as long as BLAS's threads spin."""

_SPINNING_SECONDS: Final = 0.1
"""Time for which OpenBLAS's threads spin, its default."""

_SHARE: Final = 1 / 4
"""Share of the cores that others use while they spin, at least; chosen."""


class SpinningThreads:
    """Looks for other threads at work between products. Several threads may use it at once."""

    def __init__(self) -> None:
        self._cores = usable_cores()
        self._thread, self._began, self._used, self._own = 0, 0.0, 0.0, 0.0
        self._seen = 0.0

    def mark(self) -> None:
        """Note that a product has ended in the calling thread."""
        self._thread = threading.get_ident()
        self._own, self._used = time.thread_time(), time.process_time()
        self._began = time.monotonic()

    def are_there(self) -> bool:
        """Whether other threads have been busy since the last product."""
        now = time.monotonic()
        seconds = now - self._began
        if self._thread == threading.get_ident() and seconds >= _LEAST_SECONDS:
            others_seconds = time.process_time() - self._used - (time.thread_time() - self._own)
            own_pool_seconds = self._cores * AWAKE_SECONDS  # threads of ours wait awake, too
            is_seen = others_seconds > _SHARE * self._cores * seconds + own_pool_seconds
            self._seen = now if is_seen else 0.0
            self.mark()
        return now - self._seen < _SPINNING_SECONDS
