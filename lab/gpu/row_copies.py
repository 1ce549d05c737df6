"""Contiguous copies and copies of parts of rows, on an idle GPU and while a kernel fills it.

CUDA may copy parts of rows by a copy engine, which needs no multiprocessor, or by a kernel. No call
tells which, but a copy by a kernel must wait for a kernel that fills the GPU.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.native.plain import Matrix

GAPS: Final = ("none", "host", "both")
"""Where rows have gaps: nowhere, in host memory, in host and GPU memory."""

_LONGER: Final = 5  # time of the kernel, in times of the copy
_LEAST_BUSY_SECONDS: Final = 5e-3
_START_SECONDS: Final = 0.5e-3  # until the kernel runs


@dataclass(frozen=True, slots=True)
class RowCopyReading:
    """Copies of one size between pinned memory and the GPU.

    Attributes:
        row_bytes: Bytes of a row; 0 for one contiguous copy.
        gaps: Where a gap of the same length follows each row: one of `GAPS`.
        direction: "in" or "out".
        size_bytes: Bytes copied.
        alone_seconds: Wall seconds on an idle GPU: median of the runs.
        beside_seconds: Wall seconds while a kernel fills the GPU: median of the runs.
        busy_seconds: Planned running time of that kernel, which starts before the copy.
        waited: Whether the copy ended after the kernel in most runs.
        right: Whether every byte arrived.
    """

    row_bytes: int
    gaps: str
    direction: str
    size_bytes: int
    alone_seconds: float
    beside_seconds: float
    busy_seconds: float
    waited: bool
    right: bool


def measure_row_copies(
    watch: Stopwatch, size_bytes: int, row_bytes: Sequence[int], runs: int
) -> tuple[RowCopyReading, ...]:
    """Time copies in and out: contiguous first, then for each length of a row and kind of gaps.

    Args:
        watch: Times launches on the GPU.
        size_bytes: Bytes of each copy; a multiple of every row.
        row_bytes: Lengths of a row in bytes.
        runs: Timed runs of each, after one warm-up.
    """
    readings = []
    with watch.use_device():
        copies = _RowCopies(size_bytes)
        watch.spin(1)  # loads the kernel
        none, *places = GAPS
        kinds = [(0, none), *((length, gaps) for length in row_bytes for gaps in places)]
        for length, gaps in kinds:
            for direction in ("in", "out"):
                copies.prepare(length, gaps, direction)
                alone = [copies.time() for _ in range(runs + 1)][1:]
                busy_seconds = max(_LONGER * statistics.median(alone), _LEAST_BUSY_SECONDS)
                beside = [_time_beside(watch, copies.time, busy_seconds) for _ in range(runs)]
                readings.append(
                    RowCopyReading(
                        length,
                        gaps,
                        direction,
                        size_bytes,
                        statistics.median(alone),
                        statistics.median(seconds for seconds, _ in beside),
                        busy_seconds,
                        sum(waited for _, waited in beside) * 2 > runs,
                        copies.is_right(),
                    )
                )
    return tuple(readings)


def _time_beside(
    watch: Stopwatch, measure: Callable[[], float], busy_seconds: float
) -> tuple[float, bool]:
    """Seconds of a copy while a kernel fills the GPU, and whether the kernel ended first."""
    from cupy.cuda import Device, Event, Stream

    Device().synchronize()
    stream, ended = Stream(non_blocking=True), Event()
    watch.spin(int(busy_seconds * watch.find_clock_hertz()), stream=stream)
    ended.record(stream)
    time.sleep(_START_SECONDS)
    seconds = measure()
    waited = bool(ended.done)
    ended.synchronize()
    return seconds, waited


class _RowCopies:
    """Pinned memory and device memory, each for rows and gaps of the same length."""

    def __init__(self, size_bytes: int) -> None:
        import cupy

        self._size_bytes = size_bytes
        self._drawn: Matrix = np.random.default_rng(0).integers(0, 256, 2 * size_bytes, np.uint8)
        self._host: Matrix = pin_matrix(1, 2 * size_bytes, np.uint8)[0]
        self._held = cupy.empty(2 * size_bytes, np.uint8)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._length = self._host_pitch = self._held_pitch = size_bytes
        self._direction = "in"

    def prepare(self, row_bytes: int, gaps: str, direction: str) -> None:
        """Choose what `time` copies, and clear the target."""
        self._length, self._direction = row_bytes or self._size_bytes, direction
        self._host_pitch = self._length * (1 if gaps == "none" else 2)
        self._held_pitch = self._length * (2 if gaps == "both" else 1)
        self._host[:] = self._drawn if direction == "in" else 0
        self._held.set(self._drawn if direction == "out" else np.zeros_like(self._drawn))
        self._held.device.synchronize()

    def time(self) -> float:
        """Wall seconds of one copy."""
        from cupy.cuda import runtime

        size, length = self._size_bytes, self._length
        incoming = self._direction == "in"
        ends = (self._held.data.ptr, self._held_pitch), (self._host.ctypes.data, self._host_pitch)
        (to, to_pitch), (origin, origin_pitch) = ends if incoming else ends[::-1]
        kind = runtime.memcpyHostToDevice if incoming else runtime.memcpyDeviceToHost
        began = time.perf_counter()
        if length == size:
            runtime.memcpyAsync(to, origin, size, kind, self._stream.ptr)
        else:
            rows = size // length
            runtime.memcpy2DAsync(
                *(to, to_pitch, origin, origin_pitch, length, rows, kind, self._stream.ptr)
            )
        self._stream.synchronize()
        return time.perf_counter() - began

    def is_right(self) -> bool:
        """Whether the rows arrived, and the gaps were not written."""
        import cupy

        held: Matrix = cupy.asnumpy(self._held)
        ends = (held, self._held_pitch), (self._host, self._host_pitch)
        (found, to_pitch), (_, origin_pitch) = ends if self._direction == "in" else ends[::-1]
        expected = np.zeros_like(found)
        self._cut_rows(expected, to_pitch)[:] = self._cut_rows(self._drawn, origin_pitch)
        return np.array_equal(found, expected)

    def _cut_rows(self, memory: Matrix, pitch: int) -> Matrix:
        """A view of the rows in memory that begin `pitch` bytes apart."""
        rows = self._size_bytes // self._length
        return memory[: rows * pitch].reshape(rows, pitch)[:, : self._length]
