"""The loop of the staged path: enqueues copies and kernels of a product's steps one by one."""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.events import EventPool, find_runtime
from wavetrim.kernels.pipeline.arrivals import Arrivals, Spans
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.pipeline.launch_cache import LaunchCache
from wavetrim.kernels.pipeline.step_layouts import StepLayout
from wavetrim.kernels.transfer.copies import HostOperand, OperandPart, PendingCopy
from wavetrim.kernels.transfer.staging import Staging


class StagedLoop:
    """Executes the steps of one product in the calling thread.

    Args:
        product: The product.
        operands: Its A, B and C.
        steps: The steps in order.
        staging: Copies to and from the device.
        compute: Stream of the kernels.
        events: Pool of events.
        launches: Cache of prepared launches.
    """

    def __init__(
        self,
        product: HostProduct,
        operands: Sequence[HostOperand],
        steps: Sequence[StepLayout],
        *,
        staging: Staging,
        compute: Any,
        events: EventPool,
        launches: LaunchCache,
    ) -> None:
        self._product = product
        self._a, self._b, self._c = operands
        self._steps = steps
        self._staging = staging
        self._compute = compute
        self._events = events
        self._launches = launches
        self._options = launches.find_options(product)
        self._reads_c = product.beta != 0
        self._loads: list[list[PendingCopy]] = []
        self._arrivals = Arrivals(product)
        runtime, self._address = find_runtime(), compute.ptr
        self._record, self._wait = runtime.eventRecord, runtime.streamWaitEvent

    def run(self) -> Spans:
        """Compute the product and return the times on the device.

        Raises:
            PipelineCancelled: The caller cancelled the product.
        """
        with self._compute:
            for index in range(len(self._steps)):
                self._load_ahead(index)
                if index == 0 and self._product.begun is not None:
                    self._product.begun()
                self._launch(index)
                self._arrivals.report()
        self._arrivals.finish()
        return self._arrivals.spans

    def _load_ahead(self, index: int) -> None:
        """Begin the copies in of step `index`, and of later steps whose buffers are free."""
        while len(self._loads) < len(self._steps):
            ahead = len(self._loads)
            step = self._steps[ahead].step
            if step.follows >= index:
                return
            if self._reads_c and step.first and not self._c_is_free(ahead, index):
                return
            self._loads.append(self._load(self._steps[ahead]))

    def _c_is_free(self, ahead: int, index: int) -> bool:
        """Whether the earlier C in the buffer of step `ahead` has been copied out."""
        earlier = self._steps[ahead].step.c_follows
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
        layout, address, loads = self._steps[index], self._address, self._loads[index]
        step = layout.step
        for load in loads:
            load.result()
            self._wait(address, load.end.ptr)
        if step.c_follows >= 0:
            self._arrivals.await_arrival(step.c_follows)
        start, end = self._events.take(), self._events.take()
        self._record(start.ptr, address)
        self._launches.enqueue(self._options, layout, address)
        self._record(end.ptr, address)
        store = None
        if step.last:
            store = self._staging.copy_out(
                OperandPart(self._c, step.rows, step.columns, layout.c), end
            )
        self._arrivals.add(step, (start, end), loads, store)
