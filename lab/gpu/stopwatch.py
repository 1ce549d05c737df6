"""Times of the probes' kernels on one GPU, by CUDA events."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from wavetrim.kernels.errors import translate_failures
from wavetrim.kernels.gemm.launch import count_sms, load_functions
from wavetrim.kernels.timing.seconds import FILLER_BYTES
from wavetrim.lab.gpu.catalog import SPIN, ProbeSpec

_THREADS_PER_SM: Final = 39  # cudaDevAttrMaxThreadsPerMultiProcessor
_CLOCK_RATE: Final = 13  # cudaDevAttrClockRate, in kHz
_SPIN_THREADS: Final = 256


class Stopwatch:
    """Loads and times probes on one GPU.

    The GPU fills memory before each timed launch. That evicts the caches, and lasts until the host
    has prepared the launch.

    Args:
        device_index: The GPU.
        cache_dir: Folder of compiled kernels.
        filler_bytes: Memory to fill; more than the L2 cache.
    """

    def __init__(
        self, device_index: int, cache_dir: Path, *, filler_bytes: int = FILLER_BYTES
    ) -> None:
        self.device_index = device_index
        self._cache_dir = cache_dir
        self._filler_bytes = filler_bytes
        self._filler: Any = None

    @contextlib.contextmanager
    def use_device(self) -> Iterator[None]:
        """Make the GPU current; CUDA errors become `DeviceFailure`."""
        import cupy

        with translate_failures(), cupy.cuda.Device(self.device_index):
            yield

    def load(self, spec: ProbeSpec) -> tuple[Any, ...]:
        """The functions of a probe, in the order of its entries. The device must be current."""
        return load_functions(spec, self._cache_dir)

    def time_launches(self, launch: Callable[[], object], launches: int) -> tuple[float, ...]:
        """Seconds of each launch, after one warm-up. The device must be current."""
        launch()
        return tuple(self._time_launch(launch) for _ in range(launches))

    def _time_launch(self, launch: Callable[[], object]) -> float:
        from cupy import empty
        from cupy.cuda import Event, get_elapsed_time

        if self._filler is None:
            self._filler = empty(self._filler_bytes, np.uint8)
        start, end = Event(), Event()
        self._filler.data.memset_async(0, self._filler_bytes)
        start.record()
        launch()
        end.record()
        end.synchronize()
        return float(get_elapsed_time(start, end)) / 1e3

    def spin(self, cycles: int, *, blocks: int | None = None, stream: Any = None) -> None:
        """Enqueue a kernel that only waits. The device must be current.

        Args:
            cycles: Clock cycles to wait; the clock may be below its maximum.
            blocks: Blocks of 256 threads; None for as many as fill the GPU.
            stream: The stream; None for CuPy's current stream.
        """
        (function,) = self.load(SPIN)
        count = self.count_spin_blocks() if blocks is None else blocks
        with stream if stream is not None else contextlib.nullcontext():
            function((count,), (_SPIN_THREADS,), (np.int64(cycles),))

    def count_spin_blocks(self) -> int:
        """Blocks of `spin` that run at the same time."""
        from cupy.cuda import runtime

        threads = runtime.deviceGetAttribute(_THREADS_PER_SM, self.device_index)
        return count_sms() * (int(threads) // _SPIN_THREADS)

    def find_clock_hertz(self) -> float:
        """The highest clock of the multiprocessors."""
        from cupy.cuda import runtime

        return 1e3 * int(runtime.deviceGetAttribute(_CLOCK_RATE, self.device_index))
