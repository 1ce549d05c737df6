"""The state of the machine during a turn: BLAS threads awake and the GPU's clocks up."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import threadpoolctl

from wavetrim.cpu.threads import usable_cores

PAUSE_SECONDS: Final = 0.16
"""Pause for OpenBLAS's threads, which spin for about 0.1 s after a product on cores that the next
turn needs."""

_SIDE: Final = 2048
_WAKE_SECONDS: Final = 0.03


class BlasThreads:
    """All threads of the BLAS libraries loaded now; the CPU pool holds them to one."""

    def __init__(self) -> None:
        self._controller = threadpoolctl.ThreadpoolController()

    @contextmanager
    def wake_all(self, *, wanted: bool = True) -> Iterator[None]:
        """A thread of each library for each usable core; afterwards as before, and all asleep."""
        if not wanted:
            yield
            return
        with self._controller.limit(limits=usable_cores(), user_api="blas"):
            yield
        time.sleep(PAUSE_SECONDS)


class GpuWakers:
    """Wakes several GPUs, one after the other."""

    def __init__(self, devices: Iterable[int]) -> None:
        self._wakers = [GpuWaker(device) for device in devices]

    def wake(self) -> None:
        """Let each multiply for some hundredths of a second."""
        for waker in self._wakers:
            waker.wake()


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
