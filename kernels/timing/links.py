"""Rates and latencies of copies between host and GPU, by kind of host memory and direction."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wavetrim.kernels.errors import translate_failures
from wavetrim.kernels.timing.readings import LinkReading
from wavetrim.kernels.transfer.pinned import lock_matrix, pin_matrix
from wavetrim.native.plain import Matrix

MEMORIES: Final = ("pageable", "registered", "pinned")
"""Kinds of host memory: ordinary, page-locked in place, and allocated page-locked."""

DIRECTIONS: Final = ("in", "out", "both")


@dataclass(frozen=True, slots=True)
class LockReading:
    """Times to page-lock memory: medians of the runs.

    Attributes:
        size_bytes: Bytes of the memory.
        register_seconds: Locking existing memory whose pages have been touched.
        unregister_seconds: Unlocking it.
        allocate_seconds: Allocating page-locked memory.
    """

    size_bytes: int
    register_seconds: float
    unregister_seconds: float
    allocate_seconds: float


@contextlib.contextmanager
def allocate_memory(memory: str, size_bytes: int) -> Iterator[Matrix]:
    """Host memory of one of `MEMORIES`, as a vector of bytes whose pages have been touched.

    Raises:
        DeviceFailure: It cannot be locked.
    """
    if memory == "pinned":
        matrix = pin_matrix(1, size_bytes, np.uint8)
    else:
        matrix = np.empty((1, size_bytes), np.uint8)
    matrix.fill(0)
    with lock_matrix(matrix) if memory == "registered" else contextlib.nullcontext():
        yield matrix[0]


def measure_transfers(
    device_index: int, sizes: Sequence[int], runs: int
) -> tuple[LinkReading, ...]:
    """Time copies of each size, for each kind of memory and direction.

    Args:
        device_index: The GPU.
        sizes: Bytes of a copy.
        runs: Timed runs of each, after one warm-up.

    Raises:
        DeviceFailure: Not enough memory on the host or the GPU.
    """
    import cupy

    readings: list[LinkReading] = []
    largest = max(sizes)
    drawn = np.random.default_rng(0).integers(0, 256, largest, np.uint8)
    with translate_failures(), cupy.cuda.Device(device_index):
        for memory in MEMORIES:
            with (
                allocate_memory(memory, largest) as source,
                allocate_memory(memory, largest) as target,
            ):
                source[:] = drawn
                link = _Link(device_index, memory, source, target)
                for size in sizes:
                    readings += (link.measure(way, size, runs) for way in DIRECTIONS)
                link.close()
    return tuple(readings)


def measure_locking(device_index: int, sizes: Sequence[int], runs: int) -> tuple[LockReading, ...]:
    """Time page-locking in place, unlocking, and page-locked allocation.

    Args:
        device_index: The GPU.
        sizes: Bytes of the memory.
        runs: Timed runs of each, after one warm-up.

    Raises:
        DeviceFailure: The memory cannot be locked.
    """
    import cupy

    readings = []
    with translate_failures(), cupy.cuda.Device(device_index):
        for size in sizes:
            spans = zip(*[_time_locking(size) for _ in range(runs + 1)][1:], strict=True)
            readings.append(LockReading(size, *map(statistics.median, spans)))
    return tuple(readings)


def _time_locking(size_bytes: int) -> tuple[float, float, float]:
    """Seconds of locking, unlocking and allocating, with new memory whose pages are touched."""
    matrix = np.empty((1, size_bytes), np.uint8)
    matrix.fill(1)
    began = time.perf_counter()
    with lock_matrix(matrix):
        locked = time.perf_counter()
    unlocked = time.perf_counter()
    kept = pin_matrix(1, size_bytes, np.uint8)
    allocated = time.perf_counter()
    del kept
    return locked - began, unlocked - locked, allocated - unlocked


class _Link:
    """Two arrays in host memory and two on the GPU, and a stream for each direction."""

    def __init__(self, device_index: int, memory: str, source: Matrix, target: Matrix) -> None:
        import cupy

        self._device = cupy.cuda.Device(device_index)
        self._memory = memory
        self._source, self._target = source, target
        self._incoming = cupy.empty(source.size, np.uint8)
        self._outgoing = cupy.asarray(source[::-1])
        self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
        self._thread = ThreadPoolExecutor(1)
        self._device.synchronize()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def measure(self, direction: str, size_bytes: int, runs: int) -> LinkReading:
        """Time copies, and check the copied bytes."""
        self._incoming.data.memset(0, size_bytes)
        self._device.synchronize()  # the copies' streams do not wait for the memset
        self._target[:size_bytes] = 0
        run = {"in": self._bring_in, "out": self._bring_out, "both": self._bring_both}[direction]
        seconds = tuple(_time(run, size_bytes) for _ in range(runs + 1))[1:]
        right = self._is_right(direction, size_bytes)
        copies = 2 if direction == "both" else 1
        return LinkReading(self._memory, direction, size_bytes, copies, seconds, right)

    def _is_right(self, direction: str, size_bytes: int) -> bool:
        import cupy

        arrived = direction == "out" or np.array_equal(
            cupy.asnumpy(self._incoming[:size_bytes]), self._source[:size_bytes]
        )
        left = direction == "in" or np.array_equal(
            self._target[:size_bytes], self._source[::-1][:size_bytes]
        )
        return arrived and left

    def _bring_in(self, size_bytes: int) -> None:
        self._start_in(size_bytes)
        self._streams[0].synchronize()

    def _bring_out(self, size_bytes: int) -> None:
        with self._device:
            self._start_out(size_bytes)
            self._streams[1].synchronize()

    def _bring_both(self, size_bytes: int) -> None:
        """Both directions at once; pageable copies block, so one runs in a thread."""
        if self._memory == "pageable":
            leaving = self._thread.submit(self._bring_out, size_bytes)
            self._bring_in(size_bytes)
            leaving.result()
        else:
            self._start_in(size_bytes)
            self._start_out(size_bytes)
            for stream in self._streams:
                stream.synchronize()

    def _start_in(self, size_bytes: int) -> None:
        from cupy.cuda import runtime

        ends = self._incoming.data.ptr, self._source.ctypes.data
        direction = runtime.memcpyHostToDevice
        runtime.memcpyAsync(*ends, size_bytes, direction, self._streams[0].ptr)

    def _start_out(self, size_bytes: int) -> None:
        from cupy.cuda import runtime

        ends = self._target.ctypes.data, self._outgoing.data.ptr
        direction = runtime.memcpyDeviceToHost
        runtime.memcpyAsync(*ends, size_bytes, direction, self._streams[1].ptr)


def _time(run: Callable[[int], Any], size_bytes: int) -> float:
    began = time.perf_counter()
    run(size_bytes)
    return time.perf_counter() - began
