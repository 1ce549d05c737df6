"""Work for a GPU that has idled: its clocks fall meanwhile, to the cost of whoever comes next."""

import time
from typing import Final

_SIDE: Final = 2048
_SECONDS: Final = 0.03


class GpuWaker:
    """Keeps two small matrices on a GPU to multiply.

    Args:
        device_index: CUDA's number of the GPU.
    """

    def __init__(self, device_index: int) -> None:
        import cupy

        self._device = cupy.cuda.Device(device_index)
        with self._device:
            self._matrix = cupy.ones((_SIDE, _SIDE), "float32")
            self._product = cupy.empty((_SIDE, _SIDE), "float32")

    def wake(self) -> None:
        """Let it multiply for some hundredths of a second."""
        import cupy

        until = time.perf_counter() + _SECONDS
        with self._device:
            while time.perf_counter() < until:
                cupy.dot(self._matrix, self._matrix, out=self._product)
                cupy.cuda.get_current_stream().synchronize()
