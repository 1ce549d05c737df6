"""Copies between host memory and the device by the driver, where there is no C library."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.transfer.pinned import has_adjacent_rows
from wavetrim.native.plain import Matrix

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost

_MOST_PITCH_BYTES: Final = 2**31 - 1
"""Most bytes from row to row in one copy: cudaDevAttrMaxPitch of all GPUs so far."""

_PACKED_BYTES: Final = 64 << 20
"""Most memory, in bytes, to pack rows whose layout CUDA cannot copy; more is packed in parts.
Chosen."""


def copy_in(matrix: Matrix, layout: Layout, stream: Any) -> None:
    """Copy a matrix to the device.

    Args:
        matrix: The matrix in host memory; any strides. It may be changed once the stream's work is
            done.
        layout: How it lies on the device; of the same shape.
        stream: CuPy's stream of the copy.
    """
    for part, part_layout in _cut(matrix, layout):
        rows = part if has_adjacent_rows(part) else np.ascontiguousarray(part)
        _enqueue(rows, part_layout, stream, _TO_DEVICE)
        if rows is not part:
            stream.synchronize()  # before the packed rows are freed


def copy_out(matrix: Matrix, layout: Layout, stream: Any) -> None:
    """Copy a matrix from the device, and wait for it; arguments as those of `copy_in`."""
    for part, part_layout in _cut(matrix, layout):
        rows = part if has_adjacent_rows(part) else np.empty(part.shape, part.dtype)
        _enqueue(rows, part_layout, stream, _TO_HOST)
        stream.synchronize()
        if rows is not part:
            part[...] = rows


def _enqueue(rows: Matrix, layout: Layout, stream: Any, kind: int) -> None:
    """Enqueue the copy of a matrix whose rows' elements are adjacent."""
    from cupy.cuda import runtime

    address, pitch_bytes = rows.ctypes.data, rows.strides[0]
    row_bytes = layout.columns * layout.item_bytes
    device_bytes = layout.leading_dimension * layout.item_bytes
    ends = (layout.pointer, device_bytes), (address, pitch_bytes)
    (target, to_bytes), (source, from_bytes) = ends if kind == _TO_DEVICE else ends[::-1]
    if layout.rows == 1 or to_bytes == from_bytes == row_bytes:
        runtime.memcpyAsync(target, source, layout.rows * row_bytes, kind, stream.ptr)
    elif max(to_bytes, from_bytes) > _MOST_PITCH_BYTES:
        for row in range(layout.rows):
            there, here = target + row * to_bytes, source + row * from_bytes
            runtime.memcpyAsync(there, here, row_bytes, kind, stream.ptr)
    else:
        size = row_bytes, layout.rows
        runtime.memcpy2DAsync(target, to_bytes, source, from_bytes, *size, kind, stream.ptr)


def _cut(matrix: Matrix, layout: Layout) -> Iterator[tuple[Matrix, Layout]]:
    """The whole matrix if CUDA can copy its layout, else pieces to pack."""
    rows, columns = matrix.shape
    step = rows
    if not has_adjacent_rows(matrix):
        step = max(1, _PACKED_BYTES // (columns * matrix.itemsize))
    for top in range(0, rows, step):
        part = range(top, min(top + step, rows))
        yield matrix[part.start : part.stop], layout.cut(part, range(columns))
