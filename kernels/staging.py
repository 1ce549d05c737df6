"""Copies between the caller's memory and the device, by several threads through pinned slabs.

A piece on its way in is copied into a slab by a thread, which then enqueues the transfer; the slab
is used again when the transfer is done. A piece on its way out is transferred into a slab, for
which a thread waits asleep, and copied on from there.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from kernels.memory import Matrix, PinnedSlabs, copy_matrix
from kernels.panels import cut_pieces, pitch_items

SLAB_BYTES: Final = 8 << 20
_MIN_PIECE_BYTES: Final = 512 << 10

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
        self._slabs = PinnedSlabs(2 * threads, SLAB_BYTES)
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
        return [
            self._submit(self._copy_piece_in, source[index], region, after)
            for index, region in self._cut(source, target)
        ]

    def copy_out(self, source: DeviceRegion, target: Matrix, *, after: Any) -> list[Future[Any]]:
        """Copy a matrix from the device once the CUDA event `after` has passed there.

        Returns:
            Futures, done when the matrix has arrived in the caller's memory.
        """
        return [
            self._submit(self._copy_piece_out, target[index], region, after)
            for index, region in self._cut(target, source)
        ]

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
        for future in self._pending:
            future.cancel()
        wait(self._pending)
        self._forget()

    def _forget(self) -> list[tuple[Any, Any]]:
        timers, self._timers, self._pending = self._timers, [], []
        return timers

    def close(self) -> None:
        """End the threads and free the slabs."""
        self._executor.shutdown(wait=True)
        self._slabs.close()

    def _cut(
        self, matrix: Matrix, region: DeviceRegion
    ) -> Iterator[tuple[tuple[slice, slice], DeviceRegion]]:
        """Pieces of a matrix beside their places on the device; one a thread if it is small."""
        rows, columns = matrix.shape
        share_bytes = -(-matrix.nbytes // self._threads)
        piece_bytes = min(SLAB_BYTES, max(share_bytes, _MIN_PIECE_BYTES))
        for down, across in cut_pieces(
            range(rows), range(columns), item_bytes=matrix.itemsize, piece_bytes=piece_bytes
        ):
            index = slice(down.start, down.stop), slice(across.start, across.stop)
            yield index, region.skip(down.start, across.start, matrix.itemsize)

    def _submit(
        self,
        copy: Callable[[Matrix, DeviceRegion, Any], Any],
        piece: Matrix,
        region: DeviceRegion,
        after: Any,
    ) -> Future[Any]:
        future = self._executor.submit(copy, piece, region, after)
        self._pending.append(future)
        return future

    def _copy_piece_in(self, source: Matrix, target: DeviceRegion, after: Any) -> Any:
        slab = self._slabs.acquire()
        end = None
        try:
            staged = slab.view(source.shape, _choose_pitch(source, target), source.dtype)
            copy_matrix(staged, source)
            end = self._transfer(staged, target, _TO_DEVICE, after)
        finally:
            self._slabs.release(slab, busy_until=end)
        return end

    def _copy_piece_out(self, target: Matrix, source: DeviceRegion, after: Any) -> None:
        slab = self._slabs.acquire()
        try:
            staged = slab.view(target.shape, _choose_pitch(target, source), target.dtype)
            self._transfer(staged, source, _TO_HOST, after).synchronize()
            copy_matrix(target, staged)
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
