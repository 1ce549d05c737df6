"""Stages: copies between pageable memory and the device.

With a C compiler a stage runs in C, with several threads and page-locked slabs (native_stage.py).
Otherwise CUDA's own pageable copies serve; they are slower and block the calling thread.
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
"""Most memory, in bytes, to pack rows whose layout CUDA cannot copy; more is packed in parts.
Chosen."""


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A matrix to copy, and the events around its transfers.

    Attributes:
        matrix: The matrix in host memory.
        layout: How it lies on the device; of the same shape.
        inwards: Whether it is copied to the device.
        after: CuPy event to wait for; None for none.
        start: CuPy event to record before the transfers.
        end: CuPy event to record after the transfers.
        streams: Whether its copy to a slab bypasses the caches, because the device reads the slab
            at once.
    """

    matrix: Matrix
    layout: Layout
    inwards: bool
    after: Any
    start: Any
    end: Any
    streams: bool = False


class Stage(Protocol):
    """Copies of pageable memory in both directions."""

    def send(self, request: CopyRequest) -> PendingCopy:
        """Queue a copy."""

    def finish(self) -> None:
        """Wait for all requests, and raise the first error."""

    def abandon(self) -> None:
        """Drop requests that have not begun, wait for the others, and clear errors."""

    def close(self) -> None:
        """Free the slabs; no request may be under way."""


class PageableStage:
    """CUDA's own copies of pageable memory; each is done when `send` returns.

    Args:
        inward: Enqueues transfers to the device.
        outward: Enqueues transfers from the device.
    """

    def __init__(self, inward: Transfers, outward: Transfers) -> None:
        self._inward, self._outward = inward, outward

    def send(self, request: CopyRequest) -> PendingCopy:
        """As `Stage` says; CUDA errors are raised at once."""
        stream = (self._inward if request.inwards else self._outward).stream
        if request.after is not None:
            stream.wait_event(request.after)
        request.start.record(stream)
        for part, layout in _cut(request.matrix, request.layout):
            (self._send if request.inwards else self._fetch)(part, layout)
        request.end.record(stream)
        return DirectCopy(request.start, request.end, outwards=False, awake=False)

    def finish(self) -> None:
        """Do nothing: no request is pending."""

    def abandon(self) -> None:
        """Do nothing: no request is pending."""

    def close(self) -> None:
        """Do nothing: there are no slabs."""

    def _send(self, part: Matrix, layout: Layout) -> None:
        if has_adjacent_rows(part):
            self._inward.copy_in(part.ctypes.data, part.strides[0], layout)
            return
        packed = np.ascontiguousarray(part)
        self._inward.copy_in(packed.ctypes.data, packed.strides[0], layout)
        self._inward.stream.synchronize()  # before the packed rows are freed

    def _fetch(self, part: Matrix, layout: Layout) -> None:
        rows = part if has_adjacent_rows(part) else np.empty(part.shape, part.dtype)
        self._outward.copy_out(layout, rows.ctypes.data, rows.strides[0])
        self._outward.stream.synchronize()
        if rows is not part:
            part[...] = rows


def _cut(matrix: Matrix, layout: Layout) -> Iterator[tuple[Matrix, Layout]]:
    """The whole matrix if CUDA can copy its layout, else pieces to pack."""
    rows, columns = matrix.shape
    step = rows
    if not has_adjacent_rows(matrix):
        step = max(1, _PACKED_BYTES // (columns * matrix.itemsize))
    for top in range(0, rows, step):
        part = range(top, min(top + step, rows))
        yield matrix[part.start : part.stop], layout.cut(part, range(columns))
