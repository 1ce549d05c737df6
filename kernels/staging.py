"""Copies between the caller's memory and the device, through pinned slabs that threads fill.

A copy is cut into pieces that fit a slab. On the way in, a piece is copied into a slab, and its
transfer follows; the slab is used again when that is done. On the way out, a piece is transferred
first and copied when it has arrived. One thread a direction walks through the pieces; a team of
others shares the copying of each (host_copies.py).

Page-locked memory of the caller's is read and written by the device itself, in one transfer.
"""

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from kernels.copies import PendingCopy
from kernels.host_copies import CopyTeam
from kernels.memory import Matrix, PinnedSlab, PinnedSlabs
from kernels.panels import cut_pieces, pitch_items
from kernels.pinned import is_pinned
from kernels.region import DeviceRegion

SLAB_BYTES: Final = 8 << 20
SLABS: Final = 4

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost


class Staging:
    """One direction of the pipeline: a stream, slabs, and the thread that walks through pieces.

    Args:
        device_index: CUDA's number of the device.
        team: Who copies; both directions share it.
        name: Name of the thread.

    Attributes:
        alone: Whether the calling thread walks through the pieces itself, at once: waking another
            takes longer than copying a few megabytes.
    """

    def __init__(self, device_index: int, *, team: CopyTeam, name: str) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._team = team
        self._dispatcher = ThreadPoolExecutor(
            1, name, initializer=lambda: cupy.cuda.Device(device_index).use()
        )
        self._slabs = PinnedSlabs(SLABS, SLAB_BYTES)
        self.alone = False
        self._stopping = threading.Event()
        self._enqueuing = threading.Lock()
        self._timers: list[tuple[Any, Any]] = []
        self._copies: list[Future[list[Any]]] = []

    def copy_in(self, source: Matrix, target: DeviceRegion, *, after: Any = None) -> PendingCopy:
        """Copy a matrix to the device, not before the CUDA event `after` has passed there."""
        return self._start(_TO_DEVICE, source, target, after)

    def copy_out(self, source: DeviceRegion, target: Matrix, *, after: Any) -> PendingCopy:
        """Copy a matrix from the device once the CUDA event `after` has passed there."""
        return self._start(_TO_HOST, target, source, after)

    def finish(self) -> float:
        """Wait for all copies, and return the seconds that their transfers took together.

        Raises what a copy raised that nobody has asked for.
        """
        from cupy.cuda import get_elapsed_time

        for copy in self._copies:
            copy.result()
        self.stream.synchronize()
        timers = self._forget()
        return float(sum(get_elapsed_time(start, end) for start, end in timers)) / 1e3

    def abandon(self) -> None:
        """Drop the copies that have not begun and wait for the thread to end the other."""
        self._stopping.set()
        wait(self._copies)
        self._stopping.clear()
        self._forget()

    def close(self) -> None:
        """End the thread and free the slabs."""
        self._dispatcher.shutdown(wait=True)
        self._slabs.close()

    def _forget(self) -> list[tuple[Any, Any]]:
        timers = self._timers
        self._timers, self._copies = [], []
        return timers

    def _start(
        self, direction: int, matrix: Matrix, region: DeviceRegion, after: Any
    ) -> PendingCopy:
        copy = self._send if direction == _TO_DEVICE else self._fetch
        if is_pinned(matrix):
            end = self._transfer(matrix, region, direction, after)
            return PendingCopy.enqueued([end], awaited=direction == _TO_HOST)
        if self.alone:
            return PendingCopy.enqueued(copy(matrix, region, after), awaited=False)
        events = self._dispatcher.submit(copy, matrix, region, after)
        self._copies.append(events)
        return PendingCopy(events)

    def _cut(
        self, matrix: Matrix, region: DeviceRegion
    ) -> Iterator[tuple[Matrix, DeviceRegion, PinnedSlab, Matrix]]:
        """Pieces of a matrix, their places on the device, a slab for each and its view of it."""
        rows, columns = matrix.shape
        for down, across in cut_pieces(
            range(rows), range(columns), item_bytes=matrix.itemsize, piece_bytes=SLAB_BYTES
        ):
            if self._stopping.is_set():
                return
            piece = matrix[down.start : down.stop, across.start : across.stop]
            place = region.skip(down.start, across.start, matrix.itemsize)
            slab = self._slabs.acquire()
            pitch = _choose_pitch(piece, place)
            yield piece, place, slab, slab.view(piece.shape, pitch, piece.dtype)

    def _send(self, source: Matrix, target: DeviceRegion, after: Any) -> list[Any]:
        """Copy a matrix in; returns the events that end its transfers, which may be under way."""
        ends = []
        for piece, place, slab, staged in self._cut(source, target):
            end = None
            try:
                self._team.copy(staged, piece)
                end = self._transfer(staged, place, _TO_DEVICE, after)
            finally:
                self._slabs.release(slab, busy_until=end)
            ends.append(end)
        return ends

    def _fetch(self, target: Matrix, source: DeviceRegion, after: Any) -> list[Any]:
        """Copy a matrix out, and return when it has arrived: no events are left to wait for."""
        arriving: deque[tuple[Any, Matrix, Matrix, PinnedSlab]] = deque()

        def copy_first() -> None:
            end, piece, staged, slab = arriving.popleft()
            try:
                end.synchronize()
                self._team.copy(piece, staged)
            finally:
                self._slabs.release(slab)

        try:
            for piece, place, slab, staged in self._cut(target, source):
                end = self._transfer(staged, place, _TO_HOST, after)
                arriving.append((end, piece, staged, slab))
                if len(arriving) == SLABS - 1:  # the next transfers run while this piece is copied
                    copy_first()
            while arriving:
                copy_first()
        finally:
            for end, _, _, slab in arriving:
                self._slabs.release(slab, busy_until=end)
        return []

    def _transfer(self, staged: Matrix, region: DeviceRegion, direction: int, after: Any) -> Any:
        """Enqueue the transfer of a matrix in pinned memory; returns the event of its end."""
        from cupy.cuda import Event, runtime

        rows, columns = staged.shape
        row_bytes = columns * staged.itemsize
        ends = region.pointer, staged.ctypes.data
        pitches = region.pitch * staged.itemsize, staged.strides[0]
        if direction == _TO_HOST:
            ends, pitches = ends[::-1], pitches[::-1]
        start, end = Event(), Event(block=not self.alone)
        with self._enqueuing:  # else the two events might time another thread's transfer
            if after is not None:
                self.stream.wait_event(after)
            start.record(self.stream)
            if rows == 1 or pitches[0] == pitches[1]:
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
