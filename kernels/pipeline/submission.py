"""Submission of a product's commands to one GPU: enqueue them, and wait for them."""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.gemm.cublas import HALVES, CublasHandles, find_gemm_address
from wavetrim.kernels.pipeline.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.host_product import ArrivedRows, GpuTimings, HostOperand, HostProduct
from wavetrim.kernels.transfer.stage import Stage

_STEPS_AHEAD: Final = 16
"""Most steps enqueued and not done. Chosen: with more, a cancellation takes longer."""

_STAGED_STEPS_AHEAD: Final = 2
"""The same with staged copies; chosen: to enqueue a step takes as long as its copies in."""

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
        ("strides", ctypes.c_int64 * OPERANDS),
        ("stage", ctypes.c_void_p),
        ("requests", ctypes.c_void_p),
    )


class EventPool:
    """Events for one product after another, because creating one takes longer than recording it.

    Args:
        timed: Whether the time between two events can be read. Each such event delays its stream
            by some microseconds (H200).
    """

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed
        self._events: list[Any] = []
        self._handles: Any = (ctypes.c_void_p * 0)()

    def reserve(self, count: int) -> int:
        """Address of an array of at least `count` events, as handles of the driver.

        They are all events of the pool, so no other product may use it at the same time. The
        device of the pool must be the current one.
        """
        missing = count - len(self._events)
        if missing > 0:
            from cupy.cuda import Event

            self._events += [Event(disable_timing=not self._timed) for _ in range(missing)]
            self._handles = (ctypes.c_void_p * count)(*(one.ptr for one in self._events))
        return ctypes.addressof(self._handles)


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
        self._hosts, self._pitches, self._strides = binding.hosts, binding.pitches, binding.strides
        self._requests = np.zeros(0, np.int64)
        binding.context = driver.ctxGetCurrent()
        for queue, stream in enumerate(streams):
            binding.streams[queue] = stream.ptr

    def find_gemm(self, dtype: str) -> None:
        """Find cuBLAS and its handle for an element type.

        The pipeline's device must be the current one.

        Raises:
            DeviceFailure: There is no cuBLAS.
        """
        self.binding.multiply = find_gemm_address()
        self.binding.handles[dtype in HALVES] = self._handles.find(dtype)

    def reserve_events(self, buffer: CommandBuffer) -> int:
        """Address of the events that a buffer needs, created if necessary.

        The pipeline's device must be the current one.
        """
        return self._events[bool(buffer.timed)].reserve(buffer.events)

    def run(
        self,
        buffer: CommandBuffer,
        product: HostProduct,
        operands: Sequence[HostOperand],
        stage: Stage | None = None,
    ) -> GpuTimings:
        """Compute the product and return its times.

        Args:
            buffer: Its commands.
            product: The product.
            operands: A, B and C.
            stage: Copies those that are staged; None if none is.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        started = time.perf_counter()
        addresses, pitches, strides, _ = zip(*operands, strict=True)
        if product.is_watched:
            self._bind(buffer, addresses, pitches, strides, stage)
            self._run_watched(buffer, product)
            if stage is not None:
                stage.finish()
        else:
            awake = product.is_awaited_awake
            self.run_at(buffer, addresses, pitches, strides, stage, awake=awake)
        if buffer.timed == Timed.NOTHING:
            return GpuTimings(None, None, time.perf_counter() - started)
        return self._read_spans(buffer)

    def run_at(
        self,
        buffer: CommandBuffer,
        addresses: Sequence[int],
        pitches: Sequence[int],
        strides: Sequence[int],
        stage: Stage | None,
        *,
        awake: bool,
    ) -> None:
        """Run a buffer without reports and times.

        Args:
            buffer: Its commands.
            addresses: Addresses of A, B and C.
            pitches: Their row strides in bytes.
            strides: Their column strides in bytes, which only staged copies need.
            stage: As for `run`.
            awake: Whether the calling thread polls all the time while it waits.

        Raises:
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        self._bind(buffer, addresses, pitches, strides, stage)
        status = self._run(buffer.address, len(buffer.commands), self.address, buffer.end, awake)
        if status:
            check_status(buffer.label, status)
        if stage is not None:
            stage.finish()

    def finish(self, buffer: CommandBuffer, product: HostProduct) -> GpuTimings:
        """Wait for a product that is enqueued, report its rows if it is watched, return its times.

        Args:
            buffer: Its commands, which time at least the whole.
            product: The product, which cannot be cancelled any more.

        Raises:
            CUDADriverError: The device failed.
        """
        last = len(buffer.ends)
        if product.is_watched:
            self._await_rows(buffer, product, batches=last)
        else:
            self._advance(buffer, last, last, buffer.end, awake=product.is_awaited_awake)
        return self._read_spans(buffer)

    def _bind(
        self,
        buffer: CommandBuffer,
        addresses: Sequence[int],
        pitches: Sequence[int],
        strides: Sequence[int],
        stage: Stage | None,
    ) -> None:
        """Bind a buffer to the operands of a product, and to events; arguments as for `run_at`."""
        self.binding.events = self.reserve_events(buffer)
        self._hosts[:] = addresses
        self._pitches[:] = pitches
        self.binding.stage = None
        if stage is not None:
            self._strides[:] = strides
            self.binding.stage = stage.address
            if len(self._requests) < buffer.events:
                self._requests = np.zeros(buffer.events, np.int64)
                self.binding.requests = self._requests.ctypes.data

    def _run_watched(self, buffer: CommandBuffer, product: HostProduct) -> None:
        """Compute the product, and report its rows as they arrive."""
        # Only the copies if some are staged: the CPU's part begins while they are under way.
        batches = 1 if buffer.is_staged else min(len(buffer.ends), _STEPS_AHEAD)
        self._advance(buffer, 0, batches)
        if product.hooks.begun is not None:
            product.hooks.begun()
        self._await_rows(buffer, product, batches)

    def _await_rows(self, buffer: CommandBuffer, product: HostProduct, batches: int) -> None:
        """Report rows as they arrive, and enqueue what follows the first `batches` meanwhile."""
        last, awake = len(buffer.ends), product.is_awaited_awake
        most_ahead = _STAGED_STEPS_AHEAD if buffer.is_staged else _STEPS_AHEAD
        rows = ArrivedRows(product)
        for store in buffer.stores:
            ahead = max(batches, min(last, store.batch + most_ahead))
            self._advance(buffer, batches, ahead, store.event, awake=awake)
            batches = ahead
            rows.add(store.step)
            if store.batch + 1 < last:
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
