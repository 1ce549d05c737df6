"""Submission of command buffers: enqueue a product's commands, and wait for its results."""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Final

from wavetrim.kernels.errors import DeviceFailure, PipelineCancelled
from wavetrim.kernels.events import EventPool
from wavetrim.kernels.gemm.cublas import find_gemm_address
from wavetrim.kernels.pipeline.command_buffer import COMPUTE, CommandBuffer
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostOperand, HostProduct

_STEPS_AHEAD: Final = 16
"""Steps that are enqueued and not done: more of them delay a cancellation. Chosen."""

_QUEUES = _OPERANDS = 3
_NO_EVENT: Final = -1


class Binding(ctypes.Structure):
    """What a buffer refers to by index, as in kernels/transfer/native/commands.c."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("streams", ctypes.c_void_p * _QUEUES),
        ("events", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("multiply", ctypes.c_void_p),
        ("hosts", ctypes.c_void_p * _OPERANDS),
        ("pitches", ctypes.c_int64 * _OPERANDS),
    )


class Submitter:
    """Runs command buffers on the streams of a pipeline, one at a time.

    It is made with the pipeline's device as the current one.

    Args:
        library: The C library.
        streams: CuPy's streams of copies in, kernels and copies out.
    """

    def __init__(self, library: ctypes.CDLL, streams: Sequence[Any]) -> None:
        from cupy.cuda import driver

        self._run, self._read = library.run_commands, library.read_spans
        self._events = EventPool(timed=False), EventPool(timed=True)
        self._streams = tuple(streams)  # kept alive
        self._handle: int | None = None
        self._binding = binding = Binding()
        self._address = ctypes.addressof(binding)
        binding.context = driver.ctxGetCurrent()
        for queue, stream in enumerate(streams):
            binding.streams[queue] = stream.ptr

    @property
    def has_gemm(self) -> bool:
        """Whether commands can call cuBLAS; the first time it is asked, its handle is created."""
        if self._handle is None:
            from cupy.cuda import cublas

            self._handle = cublas.create()
            cublas.setStream(self._handle, self._streams[COMPUTE].ptr)
            self._binding.handle = self._handle
            self._binding.multiply = find_gemm_address()
        return bool(self._binding.multiply)

    def prepare(self, buffer: CommandBuffer, *, timed: bool) -> None:
        """Create the events that a buffer needs. The pipeline's device must be the current one."""
        self._events[timed].reserve(buffer.events)

    def run(
        self,
        buffer: CommandBuffer,
        product: HostProduct,
        operands: Sequence[HostOperand],
        *,
        awake: bool,
    ) -> GpuTimings:
        """Compute the product and return its times.

        Args:
            buffer: Its commands, which have been prepared.
            product: The product; its rows are not shared.
            operands: A, B and C in page-locked memory.
            awake: Whether to poll all the time while waiting.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        started = time.perf_counter()
        binding = self._binding
        binding.events = self._events[product.timed].reserve(buffer.events)
        binding.hosts[:] = [operand.address for operand in operands]
        binding.pitches[:] = [operand.pitch_bytes for operand in operands]
        if product.is_watched:
            self._run_watched(buffer, product, awake=awake)
        else:
            self._advance(buffer, 0, len(buffer.ends), buffer.stores[-1].event, awake=awake)
        if product.timed:
            return self._read_times(buffer)
        return GpuTimings(None, None, time.perf_counter() - started)

    def close(self) -> None:
        """Give back cuBLAS's handle."""
        handle, self._handle = self._handle, None
        if handle is not None:
            from cupy.cuda import cublas

            cublas.destroy(handle)

    def _run_watched(self, buffer: CommandBuffer, product: HostProduct, *, awake: bool) -> None:
        """Compute the product, and tell of its rows as they arrive."""
        steps = len(buffer.ends)
        submitted = self._advance(buffer, 0, min(steps, _STEPS_AHEAD), _NO_EVENT)
        if product.begun is not None:
            product.begun()
        finished = elements = 0
        columns: int = product.c.shape[1]
        for step, event, number in buffer.stores:
            ahead = min(steps, number + _STEPS_AHEAD)
            submitted = self._advance(buffer, submitted, ahead, event, awake=awake)
            elements += len(step.rows) * len(step.columns)
            rows, finished = elements // columns - finished, elements // columns
            if product.progress is not None and rows:
                product.progress(rows)
            if product.final is not None and step.columns.stop == columns:
                product.final(range(step.rows.stop))
            is_last = number + 1 == steps
            if product.cancelled is not None and not is_last and product.cancelled():
                raise PipelineCancelled("the product was cancelled")

    def _advance(
        self, buffer: CommandBuffer, submitted: int, steps: int, event: int, *, awake: bool = False
    ) -> int:
        """Submit the commands until `steps`, and wait for an event; returns the steps submitted."""
        begin = buffer.ends[submitted - 1] if submitted else 0
        count = max(0, buffer.ends[steps - 1] - begin)
        address = buffer.address + begin * buffer.commands.strides[0]
        self._check(buffer, self._run(address, count, self._address, event, awake))
        return max(submitted, steps)

    def _read_times(self, buffer: CommandBuffer) -> GpuTimings:
        """Times between the events, all of which have passed."""
        seconds = ctypes.c_double()
        times: list[float] = []
        for pairs in (buffer.kernel_spans, buffer.copy_spans, buffer.whole_span):
            pointers = self._binding.events, pairs.ctypes.data
            self._check(buffer, self._read(*pointers, len(pairs), ctypes.byref(seconds)))
            times.append(seconds.value)
        kernel_seconds, transfer_seconds, gpu_seconds = times
        return GpuTimings(kernel_seconds, transfer_seconds, gpu_seconds)

    def _check(self, buffer: CommandBuffer, status: int) -> None:
        if status > 0:
            from cupy.cuda import driver

            raise driver.CUDADriverError(status)
        if status < 0:
            raise DeviceFailure(f"{buffer.label}: cuBLAS returned {-status}")
