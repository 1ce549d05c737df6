"""The staged path: the calling thread enqueues copies and kernels of a product's steps one by one.

Copies in start as far ahead as the device buffers allow.
"""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.errors import DeviceFailure, list_cuda_errors
from wavetrim.kernels.events import EventPool, await_event, find_runtime
from wavetrim.kernels.pipeline.arrivals import Arrivals
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.prepared_steps import PreparedSteps, StepLayout
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.transfer.copies import (
    HostOperand,
    OperandPart,
    PendingCopy,
    describe_operand,
)
from wavetrim.kernels.transfer.pinned import Matrix
from wavetrim.kernels.transfer.staging import Staging
from wavetrim.native.pool import ThreadPool


class StagedPath:
    """Computes products by the staged path. Create it with its device as the current one.

    Args:
        copiers: Threads of staged copies; None to use CUDA's pageable copies.
        memory: The device memory.

    Attributes:
        compute: CuPy's stream of the kernels.
        staging: Copies to and from the device.
        events: Pool of events.
    """

    def __init__(self, copiers: ThreadPool | None, memory: DeviceMemory) -> None:
        import cupy

        self._copiers, self._memory = copiers, memory
        self.events = EventPool()
        self.staging = Staging(copiers, self.events)
        self.compute = cupy.cuda.Stream(non_blocking=True)

    @property
    def streams(self) -> tuple[Any, Any, Any]:
        """CuPy's streams of copies in, kernels and copies out."""
        return self.staging.in_stream, self.compute, self.staging.out_stream

    def multiply(
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
        if product.needs_staging(operands):
            self._wake_copiers(product.copiers)
        steps = self._memory.prepare(product, cut)
        self._prepare(awake=product.is_awaited_awake)
        timings = _StagedProduct(self, product, operands, steps).run()
        self.staging.finish()
        return timings

    def fetch(self, b: Matrix, resident: Resident) -> None:
        """Copy an operand into its memory, and wait until it is there."""
        operand = describe_operand(b)
        if not operand.is_pinned:
            self._wake_copiers(None)
        self._prepare(awake=False)
        rows, columns = b.shape
        part = OperandPart(operand, range(rows), range(columns), resident.layout)
        (copy,) = self.staging.copy_in([part], None)
        copy.result()
        await_event(copy.end)
        self.staging.finish()

    def abandon(self) -> DeviceFailure | None:
        """After an error, wait until nothing is in flight; returns what to raise if that fails."""
        self.staging.abandon()
        try:
            find_runtime().deviceSynchronize()
        except list_cuda_errors() as error:
            return DeviceFailure(str(error), poisoned=True)
        return None

    def _prepare(self, *, awake: bool) -> None:
        self.staging.awake = awake
        self.events.reclaim()  # the previous product has ended

    def _wake_copiers(self, copiers: int | None) -> None:
        """Wake the threads for a product's copies."""
        if self._copiers is None:
            return
        helpers = self._copiers.threads if copiers is None else copiers - 1
        self._copiers.limit(helpers)
        if helpers:
            # Now, because waking them takes longer than all that precedes the first copy.
            self._copiers.wake(helpers)


class _StagedProduct:
    """One product on its way through the staged path.

    Args:
        path: The path.
        product: The product.
        operands: Its A, B and C.
        steps: Its steps.
    """

    def __init__(
        self,
        path: StagedPath,
        product: HostProduct,
        operands: Sequence[HostOperand],
        steps: PreparedSteps,
    ) -> None:
        self._product, self._steps, self._layouts = product, steps, steps.layouts
        self._a, self._b, self._c = operands
        self._staging, self._events, self._compute = path.staging, path.events, path.compute
        self._reads_c = product.beta != 0
        self._loads: list[list[PendingCopy]] = []
        self._arrivals = Arrivals(product)
        runtime, self._address = find_runtime(), path.compute.ptr
        self._record, self._wait = runtime.eventRecord, runtime.streamWaitEvent

    def run(self) -> GpuTimings:
        """Compute the product and return the times on the device.

        Raises:
            PipelineCancelled: The caller cancelled the product.
        """
        with self._compute:
            for index in range(len(self._layouts)):
                self._load_ahead(index)
                if index == 0 and self._product.hooks.begun is not None:
                    self._product.hooks.begun()
                self._launch(index)
                self._arrivals.report()
        return self._arrivals.finish()

    def _load_ahead(self, index: int) -> None:
        """Begin the copies in of step `index`, and of later steps whose buffers are free."""
        while len(self._loads) < len(self._layouts):
            ahead = len(self._loads)
            step = self._layouts[ahead].step
            if step.follows >= index:
                return
            if self._reads_c and step.first and not self._c_is_free(ahead, index):
                return
            self._loads.append(self._load(self._layouts[ahead]))

    def _c_is_free(self, ahead: int, index: int) -> bool:
        """Whether the earlier C in the buffer of step `ahead` has been copied out."""
        earlier = self._layouts[ahead].step.c_follows
        if earlier >= index:
            return False
        if earlier < 0 or ahead == index:
            return True
        return self._arrivals.has_arrived(earlier)

    def _load(self, layout: StepLayout) -> list[PendingCopy]:
        step = layout.step
        after = self._arrivals.computed[step.follows] if step.follows >= 0 else None
        parts = [OperandPart(self._a, step.rows, step.depth, layout.a)]
        if step.loads_b:
            parts.append(OperandPart(self._b, step.depth, step.columns, layout.b))
        loads = self._staging.copy_in(parts, after)
        if self._reads_c and step.first:
            if step.c_follows >= 0:
                self._arrivals.await_arrival(step.c_follows)
            part = OperandPart(self._c, step.rows, step.columns, layout.c)
            loads += self._staging.copy_in([part], None)
        return loads

    def _launch(self, index: int) -> None:
        """Enqueue the kernel of a step, after its copies in, and its copy out."""
        layout, address, loads = self._layouts[index], self._address, self._loads[index]
        step = layout.step
        for load in loads:
            load.result()
            self._wait(address, load.end.ptr)
        if step.c_follows >= 0:
            self._arrivals.await_arrival(step.c_follows)
        start, end = self._events.take(), self._events.take()
        self._record(start.ptr, address)
        self._steps.find_launch(index).enqueue(address)
        self._record(end.ptr, address)
        store = None
        if step.last:
            part = OperandPart(self._c, step.rows, step.columns, layout.c)
            store = self._staging.copy_out(part, end)
        self._arrivals.add(step, (start, end), loads, store)
