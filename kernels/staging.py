"""Copies between the caller's memory and the device, by several threads through pinned slabs.

A copy is cut into pieces that fit a slab, a piece into shares, one a thread. On the way in, the
thread that ends the last share of a piece starts its transfer, and the slab is used again when the
transfer is done. On the way out, a piece is transferred first and shared out when it has arrived.
The threads call CUDA once a piece and not once a share: such calls let go of the interpreter's
lock, and getting it back beside many threads takes longer than the call.

Page-locked memory of the caller's is read and written by the device itself, in one transfer.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import Any, Final

from kernels.copies import Countdown, PendingCopy, Transfer
from kernels.memory import Matrix, PinnedSlab, PinnedSlabs, copy_matrix
from kernels.panels import cut_pieces, pitch_items
from kernels.pinned import is_pinned
from kernels.region import DeviceRegion

SLAB_BYTES: Final = 8 << 20
SLABS: Final = 4

_SHARES: Final = 4
_MIN_SHARE_BYTES: Final = 512 << 10

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost


class Staging:
    """One direction of the pipeline: a stream, slabs, and the thread that hands them out.

    Args:
        device_index: CUDA's number of the device.
        copiers: The threads that copy; both directions share them.
        name: Name of the thread.

    Attributes:
        alone: Whether the calling thread does all copies itself, at once: waking others takes
            longer than copying a few megabytes.
    """

    def __init__(self, device_index: int, *, copiers: ThreadPoolExecutor, name: str) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._copiers = copiers
        self._dispatcher = ThreadPoolExecutor(
            1, name, initializer=lambda: cupy.cuda.Device(device_index).use()
        )
        self._slabs = PinnedSlabs(SLABS, SLAB_BYTES)
        self.alone = False
        self._stopping = threading.Event()
        self._enqueuing = threading.Lock()
        self._timers: list[tuple[Any, Any]] = []
        self._copies: list[Future[list[Future[Any]]]] = []
        self._pieces: list[Future[Any]] = []

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
            PendingCopy(copy).result()
        self.stream.synchronize()
        timers = self._forget()
        return float(sum(get_elapsed_time(start, end) for start, end in timers)) / 1e3

    def abandon(self) -> None:
        """Drop the copies that have not begun and wait for the threads to end the others."""
        self._stopping.set()
        wait(self._copies)
        wait(self._pieces)
        self._stopping.clear()
        self._forget()

    def close(self) -> None:
        """End the thread and free the slabs."""
        self._dispatcher.shutdown(wait=True)
        self._slabs.close()

    def _forget(self) -> list[tuple[Any, Any]]:
        timers = self._timers
        self._timers, self._copies, self._pieces = [], [], []
        return timers

    def _start(
        self, direction: int, matrix: Matrix, region: DeviceRegion, after: Any
    ) -> PendingCopy:
        copy = self._send if direction == _TO_DEVICE else self._fetch
        pieces: Future[list[Any]]
        if is_pinned(matrix):
            end = self._transfer(matrix, region, direction, after)
            pieces = Future()
            pieces.set_result([Transfer(end, waits=direction == _TO_HOST)])
        elif self.alone:
            pieces = Future()
            pieces.set_result(copy(matrix, region, after))
        else:
            pieces = self._dispatcher.submit(copy, matrix, region, after)
        self._copies.append(pieces)
        return PendingCopy(pieces)

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

    def _send(self, source: Matrix, target: DeviceRegion, after: Any) -> list[Future[Any]]:
        """Copy a matrix in; returns one future a piece, of the event that ends its transfer."""
        pieces = []
        for piece, place, slab, staged in self._cut(source, target):
            transfer = partial(self._transfer, staged, place, _TO_DEVICE, after)
            pieces.append(self._copy_shared(staged, piece, slab, transfer))
        return pieces

    def _fetch(self, target: Matrix, source: DeviceRegion, after: Any) -> list[Future[Any]]:
        """Copy a matrix out; returns one future a piece, done when it has arrived."""
        pieces: list[Future[Any]] = []
        arriving: deque[tuple[Any, Matrix, Matrix, PinnedSlab]] = deque()

        def share_first() -> None:
            end, piece, staged, slab = arriving.popleft()
            try:
                end.synchronize()
            except BaseException:
                self._slabs.release(slab)
                raise
            pieces.append(self._copy_shared(piece, staged, slab, lambda: None))

        for piece, place, slab, staged in self._cut(target, source):
            end = self._transfer(staged, place, _TO_HOST, after)
            arriving.append((end, piece, staged, slab))
            if len(arriving) == SLABS // 2:  # the next transfer runs while this piece is copied
                share_first()
        while arriving:
            share_first()
        return pieces

    def _copy_shared(
        self, target: Matrix, source: Matrix, slab: PinnedSlab, then: Callable[[], Any]
    ) -> Future[Any]:
        """Copy a piece by several threads; the last of them calls `then` and releases the slab.

        Returns:
            A future of what `then` returns: the event after which the slab is free, or None.
        """
        piece: Future[Any] = Future()
        rows = target.shape[0]
        count = max(1, min(rows, _SHARES, target.nbytes // _MIN_SHARE_BYTES))
        if self.alone:
            count = 1
        left = Countdown(count)

        def copy_share(top: int, bottom: int) -> None:
            try:
                copy_matrix(target[top:bottom], source[top:bottom])
            except BaseException as error:
                left.fail(error)
            if left.count_down():
                _settle(piece, left, slab, then, self._slabs)

        edges = [rows * share // count for share in range(count + 1)]
        self._pieces.append(piece)
        for top, bottom in pairwise(edges):
            if count == 1:
                copy_share(top, bottom)
            else:
                self._copiers.submit(copy_share, top, bottom)
        return piece

    def _transfer(self, staged: Matrix, region: DeviceRegion, direction: int, after: Any) -> Any:
        """Enqueue the transfer of a matrix in a slab; returns the event of its end."""
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


def _settle(
    piece: Future[Any],
    left: Countdown,
    slab: PinnedSlab,
    then: Callable[[], Any],
    slabs: PinnedSlabs,
) -> None:
    """End a piece: go on with it unless a share failed, release the slab, set the future."""
    end = None
    try:
        if left.error is None:
            end = then()
    except BaseException as error:
        left.fail(error)
    slabs.release(slab, busy_until=end)
    if left.error is None:
        piece.set_result(end)
    else:
        piece.set_exception(left.error)


def _choose_pitch(piece: Matrix, region: DeviceRegion) -> int:
    """Elements between the rows in the slab: as on the device, if that makes one plain transfer."""
    columns = piece.shape[1]
    padded = pitch_items(columns, piece.itemsize)
    return region.pitch if region.pitch == padded else columns
