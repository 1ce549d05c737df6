"""Submission of command buffers: enqueue a product's commands, and wait for its results."""

import ctypes
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import takewhile
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.events import EventPool
from wavetrim.kernels.gemm.cublas import find_gemm_address
from wavetrim.kernels.pipeline.arrivals import RowReports
from wavetrim.kernels.pipeline.command_buffer import COMPUTE, CommandBuffer, Store, Timed
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.places import PlacedStep
from wavetrim.kernels.transfer.copies import HostOperand
from wavetrim.native.tuned import PANELS_AHEAD

Record: TypeAlias = Callable[[Sequence[PlacedStep]], CommandBuffer | None]
"""Records other steps of the product, if they can be commands."""

_STEPS_AHEAD: Final = 16
"""Most steps enqueued and not done. Chosen: with more a cancellation takes longer."""

_QUEUES = _OPERANDS = 3
_NO_EVENT: Final = -1
_NOT_READY: Final = 600  # CUDA_ERROR_NOT_READY


class Waiting(IntEnum):
    """How to wait for an event, as in kernels/transfer/native/commands.c."""

    NAPPING = 0
    AWAKE = 1
    LOOKING = 2


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
        self._hosts, self._pitches = binding.hosts, binding.pitches
        binding.context = driver.ctxGetCurrent()
        for queue, stream in enumerate(streams):
            binding.streams[queue] = stream.ptr

    @property
    def has_gemm(self) -> bool:
        """Whether commands can call cuBLAS. The first question creates its handle."""
        if self._handle is None:
            from cupy.cuda import cublas

            self._handle = cublas.create()
            cublas.setStream(self._handle, self._streams[COMPUTE].ptr)
            self._binding.handle = self._handle
            self._binding.multiply = find_gemm_address()
        return bool(self._binding.multiply)

    def prepare(self, buffer: CommandBuffer) -> None:
        """Create the events that a buffer needs. The pipeline's device must be the current one."""
        self._binding.events = self._events[bool(buffer.timed)].reserve(buffer.events)

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
        self._bind(buffer, operands)
        waiting = Waiting.AWAKE if awake else Waiting.NAPPING
        if product.is_watched:
            self._run_watched(buffer, product, waiting)
        else:
            self._advance(buffer, 0, len(buffer.ends), buffer.stores[-1].event, waiting)
        return self._read_times(buffer, started)

    def enqueue(
        self, buffer: CommandBuffer, product: HostProduct, operands: Sequence[HostOperand]
    ) -> Callable[[], GpuTimings]:
        """Enqueue the whole product without waiting for it.

        Args:
            buffer: Its commands, which have been prepared.
            product: The product; its rows are not shared.
            operands: A, B and C in page-locked memory.

        Returns:
            What waits for the product, reports its rows, and returns its times. It raises the same
            errors.

        Raises:
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command.
        """
        started = time.perf_counter()
        self._bind(buffer, operands)
        self._advance(buffer, 0, len(buffer.ends))

        def finish() -> GpuTimings:
            self._report(buffer, deque(buffer.stores), RowReports(product), Waiting.NAPPING)
            return self._read_times(buffer, started)

        return finish

    def run_shared(
        self,
        buffer: CommandBuffer,
        product: HostProduct,
        operands: Sequence[HostOperand],
        steps: Sequence[PlacedStep],
        record: Record,
    ) -> GpuTimings:
        """Compute the rows that the row queue gives, panel by panel.

        Panels are recorded on the way if they differ from the recorded ones: one that is cut
        because the queue ends, and those beyond the planned rows.

        Args:
            buffer: Commands of the first steps, which have been prepared.
            product: The product.
            operands: A, B and C in page-locked memory.
            steps: The steps of all rows.
            record: Records and prepares other steps.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        started = time.perf_counter()
        self._bind(buffer, operands)
        assert product.shared is not None, "only shared rows are taken"
        reports, expected = RowReports(product), deque[Store]()
        submitted, panels = 0, list[int]()
        while submitted < len(steps):
            panel = _take_panel(steps, submitted)
            planned = panel[0].step.rows
            if len(panels) >= PANELS_AHEAD:
                last = panels[-PANELS_AHEAD] - 1
                self._wait(buffer, buffer.computed[last], Waiting.NAPPING)
            self._report(buffer, expected, reports, Waiting.LOOKING)
            rows = product.shared.take(len(planned))
            if not rows:
                break
            if len(rows) < len(planned):
                panel = [placed.cut(rows) for placed in panel]
            until = submitted + len(panel)
            if len(rows) < len(planned) or until > len(buffer.ends):
                buffer = _expect_buffer(record((*buffer.steps[:submitted], *panel)))
            self._advance(buffer, submitted, until)
            if product.begun is not None and submitted == 0:
                product.begun()
            expected.extend(one for one in buffer.stores if submitted <= one.number < until)
            submitted = until
            panels.append(until)
            if len(rows) < len(planned):
                break
        if submitted == 0:
            return GpuTimings(0.0, 0.0, 0.0)
        self._report(buffer, expected, reports, Waiting.NAPPING)
        if product.timed and submitted < len(buffer.ends):
            buffer = _expect_buffer(record(buffer.steps[:submitted]))  # for its times
        return self._read_times(buffer, started)

    def close(self) -> None:
        """Give back cuBLAS's handle."""
        handle, self._handle = self._handle, None
        if handle is not None:
            from cupy.cuda import cublas

            cublas.destroy(handle)

    def _bind(self, buffer: CommandBuffer, operands: Sequence[HostOperand]) -> None:
        binding = self._binding
        binding.events = self._events[bool(buffer.timed)].reserve(buffer.events)
        for place, operand in enumerate(operands):
            self._hosts[place], self._pitches[place] = operand.address, operand.pitch_bytes

    def _run_watched(self, buffer: CommandBuffer, product: HostProduct, waiting: Waiting) -> None:
        """Compute the product, and report its rows as they arrive."""
        steps = len(buffer.ends)
        reports = RowReports(product)
        submitted = self._advance(buffer, 0, min(steps, _STEPS_AHEAD))
        if product.begun is not None:
            product.begun()
        for store in buffer.stores:
            ahead = min(steps, store.number + _STEPS_AHEAD)
            submitted = self._advance(buffer, submitted, ahead, store.event, waiting)
            reports.report(store.step)
            if store.number + 1 < steps:
                reports.poll()

    def _report(
        self, buffer: CommandBuffer, expected: deque[Store], reports: RowReports, waiting: Waiting
    ) -> None:
        """Report copies out that are done; wait for all that are expected, unless only looking."""
        while expected and self._wait(buffer, expected[0].event, waiting):
            reports.report(expected.popleft().step)
        if expected:
            reports.poll()

    def _advance(
        self,
        buffer: CommandBuffer,
        submitted: int,
        steps: int,
        event: int = _NO_EVENT,
        waiting: Waiting = Waiting.NAPPING,
    ) -> int:
        """Submit the commands until `steps`, and wait for an event; returns the steps submitted."""
        begin = buffer.ends[submitted - 1] if submitted else 0
        count = max(0, buffer.ends[steps - 1] - begin)
        address = buffer.address + begin * buffer.commands.strides[0]
        self._check(buffer, self._run(address, count, self._address, event, waiting))
        return max(submitted, steps)

    def _wait(self, buffer: CommandBuffer, event: int, waiting: Waiting) -> bool:
        """Wait for an event; returns whether it has passed."""
        status = self._run(buffer.address, 0, self._address, event, waiting)
        if status == _NOT_READY:
            return False
        self._check(buffer, status)
        return True

    def _read_times(self, buffer: CommandBuffer, started: float) -> GpuTimings:
        """The product's times; all events have passed."""
        if buffer.timed == Timed.NOTHING:
            return GpuTimings(None, None, time.perf_counter() - started)
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
        status = self._read(self._address, spans.ctypes.data, len(spans), ctypes.byref(seconds))
        self._check(buffer, status)
        return seconds.value

    def _check(self, buffer: CommandBuffer, status: int) -> None:
        if status > 0:
            from cupy.cuda import driver

            raise driver.CUDADriverError(status)
        if status < 0:
            raise DeviceFailure(f"{buffer.label}: cuBLAS returned {-status}")


def _expect_buffer(buffer: CommandBuffer | None) -> CommandBuffer:
    assert buffer is not None, "other steps of the product have been recorded"
    return buffer


def _take_panel(steps: Sequence[PlacedStep], first: int) -> list[PlacedStep]:
    """The steps from `first` on that compute the same rows."""
    rows = steps[first].step.rows
    return list(takewhile(lambda placed: placed.step.rows == rows, steps[first:]))
