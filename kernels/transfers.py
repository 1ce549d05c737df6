"""Transfers between page-locked memory and the device, timed by events."""

from typing import Any, Final

from kernels.memory import Matrix
from kernels.region import DeviceRegion

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost
_MOST_PADDING_BYTES: Final = 127


class Transfers:
    """Enqueues transfers in one stream, for one thread.

    Args:
        stream: CuPy's stream.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._timers: list[tuple[Any, Any]] = []

    def copy_in(self, source: Matrix, target: DeviceRegion, after: Any = None) -> Any:
        """Enqueue a transfer to the device; returns the event of its end.

        Args:
            source: In page-locked memory.
            target: Where to.
            after: CUDA event that must have passed before; None for none.
        """
        return self._time(_TO_DEVICE, source, target, after)

    def copy_out(self, source: DeviceRegion, target: Matrix, after: Any = None) -> Any:
        """Enqueue a transfer from the device; as `copy_in`."""
        return self._time(_TO_HOST, target, source, after)

    def make_timer(self) -> tuple[Any, Any]:
        """Two events that somebody else is to record around transfers in the stream."""
        from cupy.cuda import Event

        timer = Event(), Event()
        self._timers.append(timer)
        return timer

    def finish(self) -> float:
        """Wait for all; returns the seconds that they took together since the last time."""
        from cupy.cuda import get_elapsed_time

        self._stream.synchronize()
        timers, self._timers = self._timers, []
        return float(sum(get_elapsed_time(start, end) for start, end in timers)) / 1e3

    def forget(self) -> None:
        """Count none of those that were enqueued."""
        self._timers = []

    def _time(self, direction: int, matrix: Matrix, region: DeviceRegion, after: Any) -> Any:
        """Enqueue one transfer and its two events."""
        start, end = self.make_timer()
        if after is not None:
            self._stream.wait_event(after)
        start.record(self._stream)
        self._enqueue(direction, matrix, region)
        end.record(self._stream)
        return end

    def _enqueue(self, direction: int, matrix: Matrix, region: DeviceRegion) -> None:
        from cupy.cuda import runtime

        rows, columns = matrix.shape
        row_bytes = columns * matrix.itemsize
        ends = region.pointer, matrix.ctypes.data
        pitches = region.pitch * matrix.itemsize, matrix.strides[0]
        # Padding may travel along to the device's buffers; between the caller's rows lies what is
        # the caller's.
        gap_bytes = pitches[0] - row_bytes
        most_gap_bytes = _MOST_PADDING_BYTES if direction == _TO_DEVICE else 0
        if direction == _TO_HOST:
            ends, pitches = ends[::-1], pitches[::-1]
        if rows == 1 or (pitches[0] == pitches[1] and gap_bytes <= most_gap_bytes):
            size_bytes = (rows - 1) * pitches[0] + row_bytes
            runtime.memcpyAsync(*ends, size_bytes, direction, self._stream.ptr)
        else:
            runtime.memcpy2DAsync(
                *(ends[0], pitches[0], ends[1], pitches[1]),
                *(row_bytes, rows, direction, self._stream.ptr),
            )
