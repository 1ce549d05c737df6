"""Transfers between host memory and the device, by CUDA itself."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.transfer.pinned import Matrix, has_adjacent_rows

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost

_MOST_PITCH_BYTES: Final = 2**31 - 1
"""Most bytes from row to row in one copy: cudaDevAttrMaxPitch of all GPUs so far."""

_PACKED_BYTES: Final = 64 << 20
"""Most memory, in bytes, to pack rows whose layout CUDA cannot copy; more is packed in parts.
Chosen."""


class Transfers:
    """Enqueues transfers of one direction in a stream of its own.

    Args:
        inwards: Whether they go to the device.

    Attributes:
        inwards: Likewise.
        stream: CuPy's stream.
    """

    def __init__(self, *, inwards: bool) -> None:
        import cupy
        from cupy.cuda import runtime

        self.inwards = inwards
        self.stream: Any = cupy.cuda.Stream(non_blocking=True)
        self._kind = _TO_DEVICE if inwards else _TO_HOST
        self._copy, self._copy_rows = runtime.memcpyAsync, runtime.memcpy2DAsync

    def enqueue(self, layout: Layout, address: int, pitch_bytes: int) -> None:
        """Enqueue the transfer of a matrix. Padding between the target's rows is not written.

        Args:
            layout: The matrix on the device.
            address: Its first element in host memory, where elements of a row are adjacent.
            pitch_bytes: Row stride there.
        """
        rows, row_bytes = layout.rows, layout.columns * layout.item_bytes
        device_bytes = layout.leading_dimension * layout.item_bytes
        ends = (address, pitch_bytes), (layout.pointer, device_bytes)
        (source, from_bytes), (target, to_bytes) = ends if self.inwards else ends[::-1]
        way = self._kind, self.stream.ptr
        if rows == 1 or to_bytes == from_bytes == row_bytes:
            self._copy(target, source, rows * row_bytes, *way)
        elif max(to_bytes, from_bytes) > _MOST_PITCH_BYTES:
            for row in range(rows):
                self._copy(target + row * to_bytes, source + row * from_bytes, row_bytes, *way)
        else:
            self._copy_rows(target, to_bytes, source, from_bytes, row_bytes, rows, *way)

    def copy_pageable(self, matrix: Matrix, layout: Layout) -> None:
        """Copy a matrix in pageable memory, which the driver does in the calling thread.

        Args:
            matrix: The matrix in host memory; any strides.
            layout: How it lies on the device; of the same shape.
        """
        for part, part_layout in _cut(matrix, layout):
            packs = not has_adjacent_rows(part)
            rows = part
            if packs:
                rows = (
                    np.ascontiguousarray(part) if self.inwards else np.empty(part.shape, part.dtype)
                )
            self.enqueue(part_layout, rows.ctypes.data, rows.strides[0])
            if packs or not self.inwards:
                self.stream.synchronize()  # before the packed rows are freed
            if packs and not self.inwards:
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
