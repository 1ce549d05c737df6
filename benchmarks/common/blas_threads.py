"""All BLAS threads for a while: the CPU pool holds them to one for the whole process."""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

import threadpoolctl

from wavetrim.cpu.threads import usable_cores

PAUSE_SECONDS: Final = 0.16
"""OpenBLAS's threads spin for about 0.1 s after a product, on cores that others want next."""


class BlasThreads:
    """The BLAS libraries that are loaded when this is made."""

    def __init__(self) -> None:
        self._controller = threadpoolctl.ThreadpoolController()

    @contextlib.contextmanager
    def wake_all(self) -> Iterator[None]:
        """A thread of each library for each usable core; afterwards as before, and all asleep."""
        with self._controller.limit(limits=usable_cores(), user_api="blas"):
            yield
        time.sleep(PAUSE_SECONDS)
