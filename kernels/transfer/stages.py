"""One direction of the way between the caller's pageable memory and the device.

A stage copies one matrix after the other. Where there is a C compiler it does so in C, by several
threads through page-locked slabs (native_stage.py). Otherwise CUDA's own copies serve: they are
slower, and they keep the calling thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.transfer.copies import DirectCopy, PendingCopy
from wavetrim.kernels.transfer.direct import Transfers
from wavetrim.kernels.transfer.pinned import Matrix, has_adjacent_rows

_PACKED_BYTES: Final = 64 << 20
"""Pieces of matrices that are packed, as CUDA cannot copy their rows; chosen, not measured."""


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A matrix to be copied, and what of the stream's comes before and behind it.

    Attributes:
        matrix: In host memory.
        place: On the device; of the same shape.
        inwards: Whether to the device.
        after: CuPy event that must have passed before; None for none.
        start: CuPy event to be recorded before its transfers.
        end: And behind them.
        alone: Whether the calling thread copies it, at once: waking another takes longer than
            copying a few megabytes. Not while another request is under way.
    """

    matrix: Matrix
    place: Layout
    inwards: bool
    after: Any
    start: Any
    end: Any
    alone: bool


class Stage(Protocol):
    """One direction."""

    def send(self, request: CopyRequest) -> PendingCopy:
        """Have a matrix copied, after those before it."""

    def limit(self, helpers: int) -> None:
        """Have so many of the pool's threads help from now on."""

    def finish(self) -> None:
        """Wait for all requests, and raise what went wrong."""

    def abandon(self) -> None:
        """Drop what has not begun, wait for what has, and forget what went wrong."""

    def close(self) -> None:
        """End the thread and free the slabs; no request may be under way."""


class PageableStage:
    """CUDA's own copies of pageable memory, each done when `send` returns.

    Args:
        stream: CuPy's stream of the transfers.
        transfers: Enqueues them there.
    """

    def __init__(self, stream: Any, transfers: Transfers) -> None:
        self._stream = stream
        self._transfers = transfers

    def send(self, request: CopyRequest) -> PendingCopy:
        """As `Stage` says; errors of CUDA's are raised at once."""
        if request.after is not None:
            self._stream.wait_event(request.after)
        request.start.record(self._stream)
        for part, place in _cut(request.matrix, request.place):
            (self._send if request.inwards else self._fetch)(part, place)
        request.end.record(self._stream)
        return DirectCopy(request.start, request.end, outwards=False, awake=False)

    def limit(self, helpers: int) -> None:
        """As `Stage` says: nothing, since no threads help."""

    def finish(self) -> None:
        """As `Stage` says: nothing is left to wait for, but transfers of the stream."""

    def abandon(self) -> None:
        """As `Stage` says: nothing waits."""

    def close(self) -> None:
        """As `Stage` says: nothing is kept."""

    def _send(self, part: Matrix, place: Layout) -> None:
        if has_adjacent_rows(part):
            self._transfers.copy_in(part.ctypes.data, part.strides[0], place)
            return
        packed = np.ascontiguousarray(part)
        self._transfers.copy_in(packed.ctypes.data, packed.strides[0], place)
        self._stream.synchronize()  # the packed rows go

    def _fetch(self, part: Matrix, place: Layout) -> None:
        rows = part if has_adjacent_rows(part) else np.empty(part.shape, part.dtype)
        self._transfers.copy_out(place, rows.ctypes.data, rows.strides[0])
        self._stream.synchronize()
        if rows is not part:
            part[...] = rows


def _cut(matrix: Matrix, place: Layout) -> Iterator[tuple[Matrix, Layout]]:
    """All of a matrix whose rows CUDA copies as they lie; else pieces, which are packed."""
    rows, columns = matrix.shape
    step = rows
    if not has_adjacent_rows(matrix):
        step = max(1, _PACKED_BYTES // (columns * matrix.itemsize))
    for top in range(0, rows, step):
        part = range(top, min(top + step, rows))
        yield matrix[part.start : part.stop], place.cut(part, range(columns))
