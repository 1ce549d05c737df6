"""Transfers between page-locked memory and the device."""

from typing import Any, Final

from wavetrim.kernels.gemm.operands import Layout

_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice
_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost

_MOST_PITCH_BYTES: Final = 2**31 - 1
"""Most bytes from row to row in one copy: cudaDevAttrMaxPitch of all GPUs so far."""


class Transfers:
    """Enqueues transfers in one stream.

    Attributes:
        stream: CuPy's stream.
    """

    def __init__(self, stream: Any) -> None:
        from cupy.cuda import runtime

        self.stream = stream
        self._stream: int = stream.ptr
        self._copy = runtime.memcpyAsync
        self._copy_rows = runtime.memcpy2DAsync

    def copy_in(self, source: int, pitch_bytes: int, target: Layout) -> None:
        """Enqueue a transfer to the device. Padding between the rows there is not written.

        Args:
            source: Address of the first element in page-locked memory.
            pitch_bytes: Row stride there.
            target: The matrix on the device.
        """
        rows, row_bytes = target.rows, target.columns * target.item_bytes
        device_bytes = target.leading_dimension * target.item_bytes
        if rows == 1 or pitch_bytes == device_bytes == row_bytes:
            self._copy(target.pointer, source, rows * row_bytes, _TO_DEVICE, self._stream)
        elif max(pitch_bytes, device_bytes) > _MOST_PITCH_BYTES:
            for row in range(rows):
                there, here = target.pointer + row * device_bytes, source + row * pitch_bytes
                self._copy(there, here, row_bytes, _TO_DEVICE, self._stream)
        else:
            ends = target.pointer, device_bytes, source, pitch_bytes
            self._copy_rows(*ends, row_bytes, rows, _TO_DEVICE, self._stream)

    def copy_out(self, source: Layout, target: int, pitch_bytes: int) -> None:
        """Enqueue a transfer from the device. Padding between the caller's rows is not written.

        Args:
            source: The matrix on the device.
            target: Address of the first element in page-locked memory.
            pitch_bytes: Row stride there.
        """
        rows, row_bytes = source.rows, source.columns * source.item_bytes
        device_bytes = source.leading_dimension * source.item_bytes
        if rows == 1 or pitch_bytes == device_bytes == row_bytes:
            self._copy(target, source.pointer, rows * row_bytes, _TO_HOST, self._stream)
        elif max(pitch_bytes, device_bytes) > _MOST_PITCH_BYTES:
            for row in range(rows):
                there, here = target + row * pitch_bytes, source.pointer + row * device_bytes
                self._copy(there, here, row_bytes, _TO_HOST, self._stream)
        else:
            ends = target, pitch_bytes, source.pointer, device_bytes
            self._copy_rows(*ends, row_bytes, rows, _TO_HOST, self._stream)
