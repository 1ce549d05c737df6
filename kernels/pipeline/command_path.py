"""The way of products as commands, which are recorded once, cached and submitted.

The GPU copies page-locked operands itself. Threads stage others, each with pieces of its own.
"""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.gemm.cublas import CublasHandles
from wavetrim.kernels.gemm.partitions import find_stream
from wavetrim.kernels.gemm.prepared import CommandKind, bind_context
from wavetrim.kernels.pipeline.command_buffer import NOT_STAGED, CommandBuffer, Staged, Timed
from wavetrim.kernels.pipeline.commands import Recorder
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.exchange import ExchangeRank
from wavetrim.kernels.pipeline.host_product import (
    GpuTimings,
    HostOperand,
    HostProduct,
    describe_operand,
)
from wavetrim.kernels.pipeline.prepared_steps import PreparedSteps
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.pipeline.submission import Submitter
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.transfer.stage import Stage
from wavetrim.native.plain import Matrix
from wavetrim.native.pool import ThreadPool


class CommandPath:
    """Computes products by command buffers. Create it with its device as the current one.

    Args:
        device: The device.
        copiers: Threads that copy within host memory, with the C library.
        compute: CuPy's stream of the kernels.
        handles: Handles of cuBLAS on it.
        memory: The device memory, with what is prepared in it.

    Attributes:
        memory: The device memory.
        submitter: Runs the command buffers of products without a limit of multiprocessors.
    """

    def __init__(
        self,
        device: DeviceInfo,
        copiers: ThreadPool,
        compute: Any,
        handles: CublasHandles,
        memory: DeviceMemory,
    ) -> None:
        import cupy

        bind_context()
        self._device, self._copiers, self.memory = device, copiers, memory
        self._in, self._out, self._between = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))
        self._stage: Stage | None = None
        self.submitter = self._make_submitter(compute, handles)
        self._limited: dict[int, tuple[Submitter, CublasHandles]] = {}

    def multiply(
        self, product: HostProduct, operands: Sequence[HostOperand], cut: Cut
    ) -> GpuTimings:
        """Compute a product.

        Args:
            product: The product.
            operands: Its A, B and C.
            cut: How its rows are cut into steps.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            KernelsError: As for `GpuPipeline.multiply`.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        staged = product.find_staged(operands)
        stage = self.wake_stage(product.copiers) if any(staged) else None
        timed = Timed.EACH if product.timed else Timed.NOTHING
        buffer = self.find_buffer(product, cut, timed, staged)
        return self.find_submitter(product).run(buffer, product, operands, stage)

    def fetch(self, b: Matrix, resident: Resident) -> None:
        """Copy an operand into its memory, and wait until it is there."""
        operand = describe_operand(b)
        stage = None if operand.is_pinned else self.wake_stage(None)
        recorder = Recorder((), (), staged=(stage is not None,) * 3)
        buffer = recorder.record_copy(resident.layout)
        addresses, pitches, strides, _ = zip(*(operand,) * 3, strict=True)
        self.submitter.run_at(buffer, addresses, pitches, strides, stage, awake=False)

    def find_buffer(
        self,
        product: HostProduct,
        cut: Cut,
        timed: Timed,
        staged: Staged = NOT_STAGED,
        rank: ExchangeRank | None = None,
    ) -> CommandBuffer:
        """The commands of a product, cached or new.

        Args:
            product: The product.
            cut: How its rows are cut into steps.
            timed: What is timed.
            staged: Which operands are staged.
            rank: Rank of this GPU in the exchange of B; None to copy in all of it.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        steps = self.memory.prepare(product, cut)
        key = timed, staged, rank
        buffer = steps.commands.get(key)
        if buffer is None:
            buffer = steps.commands[key] = self._record(product, steps, timed, staged, rank)
        return buffer

    def find_submitter(self, product: HostProduct) -> Submitter:
        """What runs a product's commands: cuBLAS has a limit of multiprocessors by its stream.

        Raises:
            KernelsError: As for `find_stream`.
        """
        spec, sms = product.spec, product.sms
        if sms is None or not spec.is_cublas:
            return self.submitter
        if sms not in self._limited:
            import cupy

            with cupy.cuda.Device(self._device.index):
                _, stream = find_stream(sms, spec.sms_quantum)
                handles = CublasHandles(stream)
                self._limited[sms] = self._make_submitter(stream, handles), handles
        return self._limited[sms][0]

    def wake_stage(self, copiers: int | None) -> Stage:
        """The stage, whose threads are woken: that takes longer than what precedes the first copy.

        Args:
            copiers: Threads that copy, with the caller; None for all.
        """
        helpers = self._copiers.threads if copiers is None else copiers - 1
        self._copiers.limit(helpers)
        if helpers:
            self._copiers.wake(helpers)
        if self._stage is None:  # opened on first use, because locking slabs takes time
            import cupy

            with cupy.cuda.Device(self._device.index):
                self._stage = Stage(self._copiers, self._in, self._out)
        return self._stage

    def abandon(self) -> None:
        """After an error, drop the copies that have not begun, and wait for the others."""
        if self._stage is not None:
            self._stage.abandon()

    def close(self) -> None:
        """Free the stage's slabs, and give handles back."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None
        while self._limited:
            self._limited.popitem()[1][1].close()

    def _make_submitter(self, compute: Any, handles: CublasHandles) -> Submitter:
        streams = self._in, compute, self._out, self._between
        return Submitter(self._copiers.library, streams, handles)

    def _record(
        self,
        product: HostProduct,
        steps: PreparedSteps,
        timed: Timed,
        staged: Staged,
        rank: ExchangeRank | None,
    ) -> CommandBuffer:
        import cupy

        submitter = self.find_submitter(product)
        recorder = Recorder(
            steps.layouts,
            steps.launches,
            reads_c=product.beta != 0,
            timed=timed,
            staged=staged,
            rank=rank,
        )
        buffer = recorder.record(product.spec.label)
        with cupy.cuda.Device(self._device.index):
            if (buffer.commands[:, 0] == CommandKind.MULTIPLY).any():  # also in another's place
                submitter.find_gemm(product.spec.dtype)
            submitter.reserve_events(buffer)
        return buffer
