"""One direction of the way between the caller's memory and the device, through pinned slabs.

Inwards a piece is copied into a slab of pinned memory, and its transfer follows; the slab is used
again when that is done. Outwards transfers run ahead, and pieces are copied as they arrive. All of
it happens in the thread that calls, with a team's help; in C where there is a compiler, since a
piece takes less time than Python needs for it.
"""

import ctypes
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

from kernels.events import await_event
from kernels.host_copies import NATIVE_ITEM_BYTES, CopyTeam, count_strides
from kernels.memory import Matrix, PinnedSlab, PinnedSlabs
from kernels.panels import cut_pieces, pitch_items
from kernels.region import DeviceRegion
from kernels.transfers import Transfers

NATIVE_SLAB_BYTES: Final = 4 << 20
NATIVE_SLABS: Final = 6
SLAB_BYTES: Final = 8 << 20
SLABS: Final = 4
"""Python takes longer for a piece, whatever its size."""

_STOPPED: Final = -2  # staging.c
_FAILED: Final = 1  # CUDA_ERROR_INVALID_VALUE


class Stage(Protocol):
    """One direction. One thread at a time; the device's context must be its own."""

    def send(self, source: Matrix, target: DeviceRegion) -> None:
        """Copy a matrix in; its last transfers may be under way in the stream."""

    def fetch(self, target: Matrix, source: DeviceRegion) -> None:
        """Copy a matrix out, and return when it has arrived."""

    def stop(self, stopping: bool) -> None:
        """Have copies that are under way end early, or from now on not; from any thread."""

    def limit(self, helpers: int) -> None:
        """Have so many of the team's threads help from now on, if they can be told apart."""

    def finish(self) -> None:
        """Wait for all transfers."""

    def close(self) -> None:
        """Free the slabs; no copy may be under way."""


def open_stage(team: CopyTeam, stream: Any) -> Stage:
    """The native one, if there is one.

    Args:
        team: Who copies.
        stream: CuPy's stream of the transfers.
    """
    return NativeStage(team, stream) if team.native is not None else SlabStage(team, stream)


class NativeStage:
    """The way in C (kernels/native/staging.c).

    Args:
        team: A native one.
        stream: CuPy's stream of the transfers.
    """

    def __init__(self, team: CopyTeam, stream: Any) -> None:
        assert team.native is not None, "the native way needs a native team"
        self._library, address = team.native
        self._slabs = [PinnedSlab(NATIVE_SLAB_BYTES) for _ in range(NATIVE_SLABS)]
        memories = (ctypes.c_void_p * NATIVE_SLABS)(*(slab.pointer for slab in self._slabs))
        _declare(self._library)
        self._stage: int | None = self._library.open_stage(
            address, stream.ptr, memories, NATIVE_SLABS, NATIVE_SLAB_BYTES
        )
        if self._stage is None:
            _raise(_FAILED)

    def send(self, source: Matrix, target: DeviceRegion) -> None:
        """As `Stage` says."""
        self._walk(self._library.send_matrix, source, target)

    def fetch(self, target: Matrix, source: DeviceRegion) -> None:
        """As `Stage` says."""
        self._walk(self._library.fetch_matrix, target, source)

    def stop(self, stopping: bool) -> None:
        """As `Stage` says."""
        self._library.stop_stage(self._stage, int(stopping))

    def limit(self, helpers: int) -> None:
        """As `Stage` says."""
        self._library.limit_helpers(self._stage, helpers)

    def finish(self) -> None:
        """As `Stage` says."""
        status: int = self._library.finish_stage(self._stage)
        if status != 0:
            _raise(status)

    def close(self) -> None:
        """As `Stage` says."""
        if self._stage is not None:
            self._library.close_stage(self._stage)
            self._stage = None
        while self._slabs:
            self._slabs.pop().free()

    def _walk(self, function: Any, matrix: Matrix, region: DeviceRegion) -> None:
        assert matrix.itemsize in NATIVE_ITEM_BYTES, "kernels have elements of 2, 4 or 8 bytes"
        rows, columns = matrix.shape
        item = matrix.itemsize
        status: int = function(
            *(self._stage, matrix.ctypes.data, *count_strides(matrix)),
            *(region.pointer, region.pitch * item, rows, columns, item),
        )
        if status not in (0, _STOPPED):
            _raise(status)


class SlabStage:
    """The way in Python.

    Args:
        team: Who copies.
        stream: CuPy's stream of the transfers.
    """

    def __init__(self, team: CopyTeam, stream: Any) -> None:
        self._team = team
        self._transfers = Transfers(stream)
        self._slabs = PinnedSlabs(SLABS, SLAB_BYTES)
        self._stopping = False

    def send(self, source: Matrix, target: DeviceRegion) -> None:
        """As `Stage` says."""
        for piece, place, slab, staged in self._cut(source, target):
            end = None
            try:
                self._team.copy(staged, piece)
                end = self._transfers.copy_in(staged, place)
            finally:
                self._slabs.release(slab, busy_until=end)

    def fetch(self, target: Matrix, source: DeviceRegion) -> None:
        """As `Stage` says."""
        arriving: deque[tuple[Any, Matrix, Matrix, PinnedSlab]] = deque()

        def copy_first() -> None:
            end, piece, staged, slab = arriving.popleft()
            try:
                await_event(end)
                self._team.copy(piece, staged)
            finally:
                self._slabs.release(slab)

        try:
            for piece, place, slab, staged in self._cut(target, source):
                arriving.append((self._transfers.copy_out(place, staged), piece, staged, slab))
                if len(arriving) == SLABS - 1:  # the next transfers run while this piece is copied
                    copy_first()
            while arriving:
                copy_first()
        finally:
            for end, _, _, slab in arriving:
                self._slabs.release(slab, busy_until=end)

    def stop(self, stopping: bool) -> None:
        """As `Stage` says."""
        self._stopping = stopping

    def limit(self, helpers: int) -> None:
        """As `Stage` says."""

    def finish(self) -> None:
        """As `Stage` says."""
        self._transfers.finish()

    def close(self) -> None:
        """As `Stage` says."""
        self._slabs.close()

    def _cut(
        self, matrix: Matrix, region: DeviceRegion
    ) -> Iterator[tuple[Matrix, DeviceRegion, PinnedSlab, Matrix]]:
        """Pieces of a matrix, their places on the device, a slab for each and its view of it."""
        rows, columns = matrix.shape
        for down, across in cut_pieces(
            range(rows), range(columns), item_bytes=matrix.itemsize, piece_bytes=SLAB_BYTES
        ):
            if self._stopping:
                return
            piece = matrix[down.start : down.stop, across.start : across.stop]
            place = region.skip(down.start, across.start, matrix.itemsize)
            slab = self._slabs.acquire()
            pitch = _choose_pitch(piece, place)
            yield piece, place, slab, slab.view(piece.shape, pitch, piece.dtype)


def _choose_pitch(piece: Matrix, region: DeviceRegion) -> int:
    """Elements between the rows in the slab: as on the device, if that makes one plain transfer."""
    columns = piece.shape[1]
    padded = pitch_items(columns, piece.itemsize)
    return region.pitch if region.pitch == padded else columns


def _declare(library: ctypes.CDLL) -> None:
    """Types of what the library takes and returns."""
    address, number, count = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    walk = (address, address, number, number, ctypes.c_uint64, *(number,) * 4)
    for function, arguments, result in (
        (library.open_stage, (address, address, address, count, number), address),
        (library.send_matrix, walk, count),
        (library.fetch_matrix, walk, count),
        (library.stop_stage, (address, count), None),
        (library.limit_helpers, (address, count), None),
        (library.finish_stage, (address,), count),
        (library.close_stage, (address,), None),
    ):
        function.argtypes, function.restype = arguments, result


def _raise(status: int) -> None:
    """Raise what CuPy raises for such a result of the driver's."""
    from cupy.cuda.driver import CUDADriverError

    raise CUDADriverError(status)
