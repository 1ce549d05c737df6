"""Submission of a product's commands to one GPU: enqueue them, and wait for them."""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.events import EventPool
from wavetrim.kernels.gemm.cublas import HALVES, CublasHandles, find_gemm_address
from wavetrim.kernels.pipeline.commands import CommandBuffer, Timed
from wavetrim.kernels.pipeline.host_product import ArrivedRows, GpuTimings, HostProduct
from wavetrim.kernels.transfer.copies import HostOperand

_STEPS_AHEAD: Final = 16
"""Most steps enqueued and not done. Chosen: with more, a cancellation takes longer."""

_QUEUES = 4
OPERANDS: Final = 3
"""A, B and C."""

_NO_EVENT: Final = -1


class Binding(ctypes.Structure):
    """What a buffer refers to by index, as in kernels/transfer/native/commands.c."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("streams", ctypes.c_void_p * _QUEUES),
        ("events", ctypes.c_void_p),
        ("peers", ctypes.c_void_p),
        ("handles", ctypes.c_void_p * 2),
        ("multiply", ctypes.c_void_p),
        ("hosts", ctypes.c_void_p * OPERANDS),
        ("pitches", ctypes.c_int64 * OPERANDS),
    )


class Submitter:
    """Runs command buffers on the streams of a pipeline, one at a time.

    It is made with the pipeline's device as the current one.

    Args:
        library: The C library.
        streams: CuPy's streams of the queues, in their order.
        handles: Handles of cuBLAS on the stream of the kernels.

    Attributes:
        binding: What its buffers refer to by index.
        address: Address of the binding.
        library: The C library.
    """

    def __init__(
        self, library: ctypes.CDLL, streams: Sequence[Any], handles: CublasHandles
    ) -> None:
        from cupy.cuda import driver

        self.library = library
        self._run, self._read = library.run_commands, library.read_spans
        self._events = EventPool(timed=False), EventPool(timed=True)
        self._streams = tuple(streams)  # kept alive
        self._handles = handles
        self.binding = binding = Binding()
        self.address = ctypes.addressof(binding)
        self._hosts, self._pitches = binding.hosts, binding.pitches
        binding.context = driver.ctxGetCurrent()
        for queue, stream in enumerate(streams):
            binding.streams[queue] = stream.ptr

    def find_gemm(self, dtype: str) -> bool:
        """Find cuBLAS and its handle for an element type; False if commands cannot call it.

        The pipeline's device must be the current one.
        """
        if not self.binding.multiply:
            self.binding.multiply = find_gemm_address()
        handle = self._handles.find(dtype)
        self.binding.handles[dtype in HALVES] = handle
        return bool(self.binding.multiply)

    def reserve_events(self, buffer: CommandBuffer) -> int:
        """Address of the events that a buffer needs, created if necessary.

        The pipeline's device must be the current one.
        """
        return self._events[bool(buffer.timed)].reserve(buffer.events)

    def run(
        self, buffer: CommandBuffer, product: HostProduct, operands: Sequence[HostOperand]
    ) -> GpuTimings:
        """Compute the product and return its times.

        Args:
            buffer: Its commands.
            product: The product.
            operands: A, B and C in page-locked memory.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        started = time.perf_counter()
        a, b, c = operands
        addresses = a.address, b.address, c.address
        pitches = a.pitch_bytes, b.pitch_bytes, c.pitch_bytes
        if product.is_watched:
            self._bind(buffer, addresses, pitches)
            self._run_watched(buffer, product)
        else:
            self.run_unwatched(buffer, addresses, pitches, awake=product.is_awaited_awake)
        if buffer.timed == Timed.NOTHING:
            return GpuTimings(None, None, time.perf_counter() - started)
        return self._read_spans(buffer)

    def run_unwatched(
        self,
        buffer: CommandBuffer,
        addresses: Sequence[int],
        pitches: Sequence[int],
        *,
        awake: bool,
    ) -> None:
        """Compute a product without reports and times.

        Args:
            buffer: Its commands.
            addresses: Addresses of A, B and C in page-locked memory.
            pitches: Their row strides in bytes.
            awake: Whether the calling thread polls all the time while it waits.

        Raises:
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        self._bind(buffer, addresses, pitches)
        count, end = len(buffer.commands), buffer.stores[-1].event
        status = self._run(buffer.address, count, self.address, end, awake)
        if status:
            check_status(buffer.label, status)

    def _bind(
        self, buffer: CommandBuffer, addresses: Sequence[int], pitches: Sequence[int]
    ) -> None:
        """Bind a buffer to the operands of a product, and to events."""
        self.binding.events = self.reserve_events(buffer)
        self._hosts[:] = addresses
        self._pitches[:] = pitches

    def finish(self, buffer: CommandBuffer, product: HostProduct) -> GpuTimings:
        """Wait for a product that is enqueued, report its rows, and return its times.

        Args:
            buffer: Its commands, which time at least the whole.
            product: The product, which cannot be cancelled any more.

        Raises:
            CUDADriverError: The device failed.
        """
        self._await_rows(buffer, product, batches=len(buffer.ends))
        return self._read_spans(buffer)

    def _run_watched(self, buffer: CommandBuffer, product: HostProduct) -> None:
        """Compute the product, and report its rows as they arrive."""
        batches = min(len(buffer.ends), _STEPS_AHEAD)
        self._advance(buffer, 0, batches)
        if product.hooks.begun is not None:
            product.hooks.begun()
        self._await_rows(buffer, product, batches)

    def _await_rows(self, buffer: CommandBuffer, product: HostProduct, batches: int) -> None:
        """Report rows as they arrive, and enqueue what follows the first `batches` meanwhile."""
        last, awake = len(buffer.ends), product.is_awaited_awake
        rows = ArrivedRows(product)
        for store in buffer.stores:
            ahead = max(batches, min(last, store.number + _STEPS_AHEAD))
            self._advance(buffer, batches, ahead, store.event, awake=awake)
            batches = ahead
            rows.add(store.step)
            if store.number + 1 < last:
                rows.end_if_cancelled()

    def _advance(
        self,
        buffer: CommandBuffer,
        begin: int,
        end: int,
        event: int = _NO_EVENT,
        *,
        awake: bool = False,
    ) -> None:
        """Enqueue the batches from `begin` to `end`, and wait for an event."""
        first = int(buffer.ends[begin - 1]) if begin else 0
        count = int(buffer.ends[end - 1]) - first
        address = buffer.address + first * buffer.commands.strides[0]
        check_status(buffer.label, self._run(address, count, self.address, event, awake))

    def _read_spans(self, buffer: CommandBuffer) -> GpuTimings:
        gpu_seconds = self._add_up(buffer, buffer.whole_span)
        if buffer.timed == Timed.WHOLE:
            return GpuTimings(None, None, gpu_seconds)
        kernel_seconds, transfer_seconds = (
            self._add_up(buffer, spans) for spans in (buffer.kernel_spans, buffer.copy_spans)
        )
        return GpuTimings(kernel_seconds, transfer_seconds, gpu_seconds)

    def _add_up(self, buffer: CommandBuffer, spans: NDArray[np.int32]) -> float:
        """The sum of the seconds between pairs of events."""
        seconds = ctypes.c_double()
        status = self._read(self.address, spans.ctypes.data, len(spans), ctypes.byref(seconds))
        check_status(buffer.label, status)
        return seconds.value


def check_status(label: str, status: int) -> None:
    """Raise the error that C returned.

    Args:
        label: The kernel, for the message.
        status: A CUresult, or a cublasStatus_t below 0.

    Raises:
        DeviceFailure: cuBLAS refuses a product.
        CUDADriverError: CUDA refuses a command, or the device failed.
    """
    if status > 0:
        from cupy.cuda import driver

        raise driver.CUDADriverError(status)
    if status < 0:
        raise DeviceFailure(f"{label}: cuBLAS returned {-status}")
