"""The staged path: Python enqueues the steps of a product one by one (`staged_loop`).

Copies in start as far ahead as the device buffers allow.
"""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure, list_cuda_errors
from wavetrim.kernels.events import EventPool, await_event, find_runtime
from wavetrim.kernels.gemm.dispatch import check_sms
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.pipeline.staged_loop import StagedLoop
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.transfer.copies import HostOperand, OperandPart, describe_operand
from wavetrim.kernels.transfer.pinned import Matrix
from wavetrim.kernels.transfer.staging import Staging
from wavetrim.native.pool import ThreadPool


class StagedPath:
    """Computes products by the staged path. Create it with its device as the current one.

    Args:
        device: The device.
        copiers: Threads of staged copies; None to use CUDA's pageable copies.
        memory: The device memory.
    """

    def __init__(
        self, device: DeviceInfo, copiers: ThreadPool | None, memory: DeviceMemory
    ) -> None:
        import cupy

        self._device, self._copiers, self._memory = device, copiers, memory
        self._events = EventPool()
        self._staging = Staging(copiers, self._events)
        self._compute = cupy.cuda.Stream(non_blocking=True)

    @property
    def streams(self) -> tuple[Any, Any, Any]:
        """CuPy's streams of copies in, kernels and copies out."""
        return self._staging.in_stream, self._compute, self._staging.out_stream

    def compute(
        self, product: HostProduct, operands: Sequence[HostOperand], cut: Cut
    ) -> GpuTimings:
        """Compute a product, with the device as the current one.

        Args:
            product: The product.
            operands: Its A, B and C.
            cut: How its rows are cut into steps.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            KernelsError: As for `GpuPipeline.multiply`.
            CUDARuntimeError: CUDA refuses a command, or the device failed.
        """
        check_sms(product.spec, product.sms, self._device.sm_count)
        if product.needs_staging(operands):
            self._wake_copiers(product.copiers)
        problem = product.find_panels(self._device.sm_count)
        steps = self._memory.prepare(problem, cut, product.resident_b)
        self._prepare(awake=product.is_awaited_awake)
        loop = StagedLoop(
            product,
            operands,
            steps,
            staging=self._staging,
            compute=self._compute,
            events=self._events,
            launches=self._memory.launches,
        )
        spans = loop.run()
        self._staging.finish()
        return GpuTimings(spans.kernel_seconds, spans.transfer_seconds, spans.gpu_seconds)

    def fetch(self, b: Matrix, resident: Resident) -> None:
        """Copy an operand into its memory, and wait until it is there."""
        operand = describe_operand(b)
        if not operand.is_pinned:
            self._wake_copiers(None)
        self._prepare()
        rows, columns = b.shape
        part = OperandPart(operand, range(rows), range(columns), resident.layout)
        (copy,) = self._staging.copy_in([part], None)
        copy.result()
        await_event(copy.end)
        self._staging.finish()

    def abandon(self) -> DeviceFailure | None:
        """After an error, wait until nothing is in flight; returns what to raise if that fails."""
        self._staging.abandon()
        try:
            find_runtime().deviceSynchronize()
        except list_cuda_errors() as error:
            return DeviceFailure(str(error), poisoned=True)
        return None

    def close(self) -> None:
        """Close the stage."""
        self._staging.close()

    def _prepare(self, *, awake: bool = False) -> None:
        self._staging.awake = awake
        self._events.reclaim()  # the previous product has ended

    def _wake_copiers(self, copiers: int | None) -> None:
        """Wake the threads for a product's copies."""
        if self._copiers is None:
            return
        helpers = self._copiers.threads if copiers is None else copiers - 1
        self._copiers.limit(helpers)
        if helpers:
            # Now, because waking them takes longer than all that precedes the first copy.
            self._copiers.wake(helpers)
