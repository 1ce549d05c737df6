"""One direction of the way between the caller's memory and the device, through pinned slabs.

Inwards a piece is copied into a slab of pinned memory, and its transfer follows; the slab is used
again when that is done. Outwards transfers run ahead, and pieces are copied as they arrive. A stage
has a thread of its own for that, and a team's help: in C where there is a compiler, since a
piece takes less time than Python's threads need to hand each other the interpreter's lock.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Final, Protocol

from wavetrim.kernels.events import await_event
from wavetrim.kernels.host_copies import CopyTeam
from wavetrim.kernels.memory import Matrix, PinnedSlab, PinnedSlabs
from wavetrim.kernels.operands import Layout
from wavetrim.kernels.pieces import cut_pieces, pitch_items
from wavetrim.kernels.region import DeviceRegion
from wavetrim.kernels.transfers import Transfers
from wavetrim.native.call_threads import CallThreads

SLAB_BYTES: Final = 8 << 20
SLABS: Final = 4


@dataclass(frozen=True, slots=True)
class Errand:
    """A matrix to be copied, and what of the stream's comes before and behind it.

    Attributes:
        matrix: In host memory.
        region: On the device.
        inwards: Whether to the device.
        after: CuPy event that must have passed before; None for none.
        start: CuPy event to be recorded before its transfers.
        end: And behind them.
        alone: Whether the calling thread copies it, at once: waking another takes longer than
            copying a few megabytes. Not while another errand is under way.
    """

    matrix: Matrix
    region: DeviceRegion
    inwards: bool
    after: Any
    start: Any
    end: Any
    alone: bool


class Walk(Protocol):
    """An errand on its way: over when it is enqueued inwards, when it has arrived outwards."""

    def done(self) -> bool:
        """Whether it is over."""

    def result(self) -> None:
        """Wait until it is over, and raise what went wrong with it.

        A stage that begins nothing behind a failure raises that instead.
        """


class Stage(Protocol):
    """One direction."""

    def send(self, errand: Errand) -> Walk:
        """Have a matrix copied, after those before it."""

    def limit(self, helpers: int) -> None:
        """Have so many of the team's threads help from now on, if they can be told apart."""

    def finish(self) -> None:
        """Wait for all errands, and raise what went wrong."""

    def abandon(self) -> None:
        """Drop what has not begun, wait for what has, and forget what went wrong."""

    def close(self) -> None:
        """End the thread and free the slabs; no errand may be under way."""


class SlabStage:
    """The way in Python.

    Args:
        device_index: CUDA's number of the device.
        team: Who copies.
        stream: CuPy's stream of the transfers.
    """

    def __init__(self, device_index: int, team: CopyTeam, stream: Any) -> None:
        import cupy

        self._team = team
        self._stream = stream
        self._transfers = Transfers(stream)
        self._slabs = PinnedSlabs(SLABS, SLAB_BYTES)
        self._stopping = False
        self._thread = CallThreads(1, "gpu-copy")
        self._thread.submit(cupy.cuda.Device(device_index).use).result()
        self._walks: list[Future[None]] = []

    def send(self, errand: Errand) -> Walk:
        """As `Stage` says."""
        walk: Future[None]
        if errand.alone:
            self._walk(errand)
            walk = Future()
            walk.set_result(None)
        else:
            walk = self._thread.submit(self._walk, errand)
        self._walks.append(walk)
        return walk

    def limit(self, helpers: int) -> None:
        """As `Stage` says."""

    def finish(self) -> None:
        """As `Stage` says."""
        walks, self._walks = self._walks, []
        for walk in walks:
            walk.result()

    def abandon(self) -> None:
        """As `Stage` says."""
        self._stopping = True
        wait(self._walks)
        self._walks = []
        self._stopping = False

    def close(self) -> None:
        """As `Stage` says."""
        self._thread.close()
        self._slabs.close()

    def _walk(self, errand: Errand) -> None:
        if errand.after is not None:
            self._stream.wait_event(errand.after)
        errand.start.record(self._stream)
        (self._send if errand.inwards else self._fetch)(errand)
        errand.end.record(self._stream)

    def _send(self, errand: Errand) -> None:
        for piece, place, slab, staged in self._cut(errand.matrix, errand.region):
            end = None
            try:
                self._team.copy(staged, piece)
                self._transfers.copy_in(staged.ctypes.data, staged.strides[0], place)
                end = self._record()
            finally:
                self._slabs.release(slab, busy_until=end)

    def _fetch(self, errand: Errand) -> None:
        arriving: deque[tuple[Any, Matrix, Matrix, PinnedSlab]] = deque()

        def copy_first() -> None:
            end, piece, staged, slab = arriving.popleft()
            try:
                await_event(end)
                self._team.copy(piece, staged)
            finally:
                self._slabs.release(slab)

        try:
            for piece, place, slab, staged in self._cut(errand.matrix, errand.region):
                self._transfers.copy_out(place, staged.ctypes.data, staged.strides[0])
                arriving.append((self._record(), piece, staged, slab))
                if len(arriving) == SLABS - 1:  # the next transfers run while this piece is copied
                    copy_first()
            while arriving:
                copy_first()
        finally:
            for end, _, _, slab in arriving:
                self._slabs.release(slab, busy_until=end)

    def _record(self) -> Any:
        """An event behind what is enqueued by now."""
        from cupy.cuda import Event

        event = Event()
        event.record(self._stream)
        return event

    def _cut(
        self, matrix: Matrix, region: DeviceRegion
    ) -> Iterator[tuple[Matrix, Layout, PinnedSlab, Matrix]]:
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
            height, width = piece.shape
            layout = Layout(place.pointer, height, width, place.pitch, piece.itemsize)
            yield piece, layout, slab, slab.view(piece.shape, pitch, piece.dtype)


def _choose_pitch(piece: Matrix, region: DeviceRegion) -> int:
    """Elements between the rows in the slab: as on the device, if that makes one plain transfer."""
    columns = piece.shape[1]
    padded = pitch_items(columns, piece.itemsize)
    return region.pitch if region.pitch == padded else columns
