"""The state of the machine before a round: BLAS threads asleep and the GPU's clocks up."""

import time
from typing import Final

PAUSE_SECONDS: Final = 0.16
"""Pause for OpenBLAS's threads, which spin for about 0.1 s after a product on cores that the next
turn needs."""

_SIDE: Final = 2048
_WAKE_SECONDS: Final = 0.03


class GpuWaker:
    """Small matrices to multiply on a GPU that has idled, so that its clocks rise again."""

    def __init__(self, device_index: int) -> None:
        import cupy

        self._device = cupy.cuda.Device(device_index)
        with self._device:
            self._matrix = cupy.ones((_SIDE, _SIDE), "float32")
            self._product = cupy.empty((_SIDE, _SIDE), "float32")

    def wake(self) -> None:
        """Multiply for some hundredths of a second."""
        import cupy

        until = time.perf_counter() + _WAKE_SECONDS
        with self._device:
            while time.perf_counter() < until:
                cupy.dot(self._matrix, self._matrix, out=self._product)
                cupy.cuda.get_current_stream().synchronize()
