"""The way of products without the C library: one step after the other, copied by the driver.

The driver's copies of pageable memory occupy the calling thread, so nothing would overlap anyway.
"""

import time
from typing import Any, Final

import numpy as np

from wavetrim.kernels.gemm.dispatch import enqueue
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import ArrivedRows, GpuTimings, HostProduct
from wavetrim.kernels.pipeline.prepared_steps import StepLayout
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.transfer.pinned import has_adjacent_rows
from wavetrim.native.plain import Matrix

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost

_MOST_PITCH_BYTES: Final = 2**31 - 1
"""Most bytes from row to row in one copy: cudaDevAttrMaxPitch of all GPUs so far."""

_PACKED_BYTES: Final = 64 << 20
"""Most memory, in bytes, to pack rows whose layout CUDA cannot copy; more is packed in parts.
Chosen."""


class PlainPath:
    """Computes products in one stream.

    Args:
        compute: CuPy's stream of copies and kernels.
        memory: The device memory.
    """

    def __init__(self, compute: Any, memory: DeviceMemory) -> None:
        self._compute, self._memory = compute, memory

    def multiply(self, product: HostProduct, cut: Cut) -> GpuTimings:
        """Compute a product, as `CommandPath.multiply`; with its device as the current one."""
        started = time.perf_counter()
        steps, rows = self._memory.prepare(product, cut), ArrivedRows(product)
        if product.hooks.begun is not None:
            product.hooks.begun()
        kernel_seconds = transfer_seconds = 0.0
        for layout, launch in zip(steps.layouts, steps.launches, strict=True):
            began = self._read_clock(product)
            self._load(product, layout)
            loaded = self._read_clock(product)
            with self._compute:
                enqueue(product.spec, launch, sms=product.sms)
            computed = self._read_clock(product)
            step = layout.step
            if step.last:
                _copy(_cut(product.c, step.rows, step.columns), layout.c, self._compute, _TO_HOST)
                rows.add(step)
            kernel_seconds += computed - loaded
            transfer_seconds += loaded - began + time.perf_counter() - computed
            if layout is not steps.layouts[-1]:
                rows.end_if_cancelled()
        seconds = time.perf_counter() - started
        if not product.timed:
            return GpuTimings(None, None, seconds)
        return GpuTimings(kernel_seconds, transfer_seconds, seconds)

    def fetch(self, b: Matrix, resident: Resident) -> None:
        """Copy an operand into its memory, and wait until it is there."""
        _copy(b, resident.layout, self._compute, _TO_DEVICE)
        self._compute.synchronize()

    def _read_clock(self, product: HostProduct) -> float:
        """The time, if the product is timed once all that is enqueued has ended."""
        if product.timed:
            self._compute.synchronize()
        return time.perf_counter()

    def _load(self, product: HostProduct, layout: StepLayout) -> None:
        """Copy in what a step reads."""
        step, compute = layout.step, self._compute
        if step.a_depth:
            _copy(_cut(product.a, step.rows, step.a_depth), layout.a_in, compute, _TO_DEVICE)
        if step.loads_b:
            _copy(_cut(product.b, step.depth, step.columns), layout.b, compute, _TO_DEVICE)
        if step.first and product.beta != 0:
            _copy(_cut(product.c, step.rows, step.columns), layout.c, compute, _TO_DEVICE)


def _cut(matrix: Matrix, rows: range, columns: range) -> Matrix:
    return matrix[rows.start : rows.stop, columns.start : columns.stop]


def _copy(matrix: Matrix, layout: Layout, stream: Any, kind: int) -> None:
    """Copy a matrix of any strides to the device, or from it.

    What was copied to the device may be changed once the stream's work is done. A copy from it is
    awaited.
    """
    rows, columns = matrix.shape
    is_plain, step = has_adjacent_rows(matrix), rows
    if not is_plain:  # packed, in parts
        step = max(1, _PACKED_BYTES // (columns * matrix.itemsize))
    for top in range(0, rows, step):
        part = matrix[top : top + step]
        packed = part if is_plain else np.array(part, order="C")
        rows_of_part = layout.cut(range(top, top + len(part)), range(columns))
        _enqueue(packed, rows_of_part, stream, kind)
        if kind == _TO_HOST or not is_plain:
            stream.synchronize()
        if kind == _TO_HOST and not is_plain:
            part[...] = packed


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
