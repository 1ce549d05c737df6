"""Copies between the caller's memory and the device, by several threads through pinned slabs.

Each thread takes a share of the rows and moves it slab by slab. On the way in it copies a piece
into a slab and enqueues the transfer; the slab is used again when the transfer is done. On the way
out it enqueues the transfer, sleeps until the piece has arrived, and copies it on.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from kernels.memory import Matrix, PinnedSlabs, copy_matrix
from kernels.panels import cut_pieces, pitch_items

SLAB_BYTES: Final = 2 << 20
"""Small enough for all slabs together to stay in the processor's cache, where the copies and the
device meet; large enough for a transfer to take longer than starting it."""

_SLABS_PER_THREAD: Final = 2
_MIN_SHARE_BYTES: Final = 1 << 20
"""Less than this is copied at once by the calling thread: waking another takes as long."""

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost


@dataclass(frozen=True, slots=True)
class DeviceRegion:
    """Part of a row-major matrix in device memory.

    Attributes:
        pointer: Address of its first element.
        pitch: Elements from one row to the next.
    """

    pointer: int
    pitch: int

    def skip(self, rows: int, columns: int, item_bytes: int) -> "DeviceRegion":
        """The region that begins so many rows and columns further on."""
        offset = (rows * self.pitch + columns) * item_bytes
        return DeviceRegion(self.pointer + offset, self.pitch)


class Staging:
    """One direction of the pipeline: a stream, slabs and the threads that fill or empty them.

    Args:
        device_index: CUDA's number of the device.
        threads: Threads that copy.
        name: Name of the threads.
    """

    def __init__(self, device_index: int, *, threads: int, name: str) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._threads = threads
        self._executor = ThreadPoolExecutor(
            threads, name, initializer=lambda: cupy.cuda.Device(device_index).use()
        )
        self._slabs = PinnedSlabs(_SLABS_PER_THREAD * threads + 1, SLAB_BYTES)
        self._stopping = threading.Event()
        self._enqueuing = threading.Lock()
        self._timers: list[tuple[Any, Any]] = []
        self._pending: list[Future[Any]] = []

    def copy_in(
        self, source: Matrix, target: DeviceRegion, *, after: Any = None
    ) -> list[Future[Any]]:
        """Copy a matrix to the device, not before the CUDA event `after` has passed there.

        Returns:
            Futures of the CUDA events that end the transfers, done when those are enqueued.
        """
        return self._share(self._copy_in, source, target, after)

    def copy_out(self, source: DeviceRegion, target: Matrix, *, after: Any) -> list[Future[Any]]:
        """Copy a matrix from the device once the CUDA event `after` has passed there.

        Returns:
            Futures, done when the matrix has arrived in the caller's memory.
        """
        return self._share(self._copy_out, target, source, after)

    def finish(self) -> float:
        """Wait for all copies, and return the seconds that their transfers took together.

        Raises what a copy raised that nobody has asked for.
        """
        from cupy.cuda import get_elapsed_time

        for future in self._pending:
            future.result()
        self.stream.synchronize()
        timers = self._forget()
        return float(sum(get_elapsed_time(start, end) for start, end in timers)) / 1e3

    def abandon(self) -> None:
        """Drop the copies that have not begun and wait for the threads to end the others."""
        self._stopping.set()
        for future in self._pending:
            future.cancel()
        wait(self._pending)
        self._stopping.clear()
        self._forget()

    def _forget(self) -> list[tuple[Any, Any]]:
        timers, self._timers, self._pending = self._timers, [], []
        return timers

    def close(self) -> None:
        """End the threads and free the slabs."""
        self._executor.shutdown(wait=True)
        self._slabs.close()

    def _share(
        self,
        copy: Callable[[Matrix, DeviceRegion, Any], Any],
        matrix: Matrix,
        region: DeviceRegion,
        after: Any,
    ) -> list[Future[Any]]:
        """Divide a copy by rows among the threads; a small one is done on the spot."""
        rows = matrix.shape[0]
        shares = min(self._threads, rows, matrix.nbytes // _MIN_SHARE_BYTES)
        if shares <= 1 and matrix.nbytes <= _MIN_SHARE_BYTES:
            done: Future[Any] = Future()
            done.set_result(copy(matrix, region, after))
            return [done]
        edges = [rows * share // max(shares, 1) for share in range(max(shares, 1) + 1)]
        futures = [
            self._executor.submit(
                copy, matrix[top:bottom], region.skip(top, 0, matrix.itemsize), after
            )
            for top, bottom in pairwise(edges)
        ]
        self._pending += futures
        return futures

    def _cut(self, matrix: Matrix, region: DeviceRegion) -> Iterator[tuple[Matrix, DeviceRegion]]:
        """Pieces of a matrix that fit a slab, beside their places on the device."""
        rows, columns = matrix.shape
        for down, across in cut_pieces(
            range(rows), range(columns), item_bytes=matrix.itemsize, piece_bytes=SLAB_BYTES
        ):
            piece = matrix[down.start : down.stop, across.start : across.stop]
            yield piece, region.skip(down.start, across.start, matrix.itemsize)

    def _copy_in(self, source: Matrix, target: DeviceRegion, after: Any) -> Any:
        end = None
        for piece, place in self._cut(source, target):
            if self._stopping.is_set():
                break
            slab, end = self._slabs.acquire(), None
            try:
                staged = slab.view(piece.shape, _choose_pitch(piece, place), piece.dtype)
                copy_matrix(staged, piece)
                end = self._transfer(staged, place, _TO_DEVICE, after)
            finally:
                self._slabs.release(slab, busy_until=end)
        return end

    def _copy_out(self, target: Matrix, source: DeviceRegion, after: Any) -> None:
        for piece, place in self._cut(target, source):
            if self._stopping.is_set():
                break
            slab = self._slabs.acquire()
            try:
                staged = slab.view(piece.shape, _choose_pitch(piece, place), piece.dtype)
                self._transfer(staged, place, _TO_HOST, after).synchronize()
                copy_matrix(piece, staged)
            finally:
                self._slabs.release(slab)

    def _transfer(self, staged: Matrix, region: DeviceRegion, direction: int, after: Any) -> Any:
        """Enqueue the transfer of a matrix in a slab; returns the event of its end."""
        from cupy.cuda import Event, runtime

        rows, columns = staged.shape
        row_bytes = columns * staged.itemsize
        ends = region.pointer, staged.ctypes.data
        pitches = region.pitch * staged.itemsize, staged.strides[0]
        if direction == _TO_HOST:
            ends, pitches = ends[::-1], pitches[::-1]
        start, end = Event(block=True), Event(block=True)
        with self._enqueuing:  # else the two events might time another thread's transfer
            if after is not None:
                self.stream.wait_event(after)
            start.record(self.stream)
            if pitches[0] == pitches[1]:
                size_bytes = (rows - 1) * pitches[0] + row_bytes
                runtime.memcpyAsync(*ends, size_bytes, direction, self.stream.ptr)
            else:
                runtime.memcpy2DAsync(
                    *(ends[0], pitches[0], ends[1], pitches[1]),
                    *(row_bytes, rows, direction, self.stream.ptr),
                )
            end.record(self.stream)
            self._timers.append((start, end))
        return end


def _choose_pitch(piece: Matrix, region: DeviceRegion) -> int:
    """Elements between the rows in the slab: as on the device, if that makes one plain transfer."""
    columns = piece.shape[1]
    padded = pitch_items(columns, piece.itemsize)
    return region.pitch if region.pitch == padded else columns
