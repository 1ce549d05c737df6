"""One product on its way through the pipeline: what has been copied, launched and brought back."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kernels.copies import PendingCopy
from kernels.errors import PipelineCancelled
from kernels.events import EventPool, await_event
from kernels.gemm import enqueue_product
from kernels.host_product import HostOperand, HostProduct, Passage
from kernels.operands import Product
from kernels.places import PlacedStep
from kernels.spans import Spans
from kernels.staging import Staging
from kernels.steps import Step

PANELS_AHEAD: Final = 3
"""Of shared rows: panels that are taken and not computed. One is being computed, one copied in."""


class Flow:
    """Walks through the steps of one product.

    Args:
        product: What is computed.
        operands: Its A, B and C.
        steps: The steps in their order.
        inward: Copies to the device.
        outward: Copies from the device.
        compute: The stream of the kernels.
        events: Where events come from.
        cache_dir: Folder of compiled kernels.
    """

    def __init__(
        self,
        product: HostProduct,
        operands: Sequence[HostOperand],
        steps: Sequence[PlacedStep],
        *,
        inward: Staging,
        outward: Staging,
        compute: Any,
        events: EventPool,
        cache_dir: Path,
    ) -> None:
        self._product = product
        self._a, self._b, self._c = operands
        self._steps = list(steps)
        self._inward = inward
        self._outward = outward
        self._compute = compute
        self._events = events
        self._cache_dir = cache_dir
        self._loads: list[list[PendingCopy]] = []
        self._launches: list[tuple[Any, Any]] = []
        self._stores: dict[int, PendingCopy] = {}
        self._unreported: deque[int] = deque()
        self._finished_elements = 0
        self._taken_rows = 0
        self._panel_ends: list[int] = []
        self._measured = 0
        self._spans = Spans()

    def run(self) -> Spans:
        """Compute the product; returns where the time went on the device.

        Raises:
            PipelineCancelled: The caller asked to stop.
        """
        index = 0
        with self._compute:
            while index < len(self._steps):
                self._load_ahead(index)
                if index == 0 and self._product.begun is not None:
                    self._product.begun()
                if index < len(self._steps):  # unless there were no rows left to take
                    self._launch(index)
                    self._report()
                index += 1
        while self._unreported:
            # What is left when only the last panel is missing takes no time worth a nap.
            last = len(self._unreported) == 1 < len(self._stores)
            self._stores[self._unreported[0]].result(awake=last)
            self._report()
        return self._spans

    def _load_ahead(self, index: int) -> None:
        """Have operands copied in for step `index`, and for later ones whose buffers are free."""
        while len(self._loads) < len(self._steps):
            ahead = len(self._loads)
            step = self._steps[ahead].step
            if step.follows >= index or (self._reads_c(step) and not self._c_is_free(ahead, index)):
                return
            if not self._take_rows(ahead, index):
                return
            self._loads.append(self._load(self._steps[ahead]))

    def _take_rows(self, ahead: int, index: int) -> bool:
        """Take the rows of step `ahead`, if they are shared and it is time; False if not."""
        shared, step = self._product.shared, self._steps[ahead].step
        if shared is None or step.rows.start < self._taken_rows:
            return True
        if not self._is_time(ahead, index):
            return False
        rows = shared.take(len(step.rows))
        if not rows:
            del self._steps[ahead:]
            return False
        panel = [one for one in self._steps[ahead:] if one.step.rows == step.rows]
        if len(rows) < len(step.rows):  # and so the last ones
            self._steps[ahead:] = [one.cut(rows) for one in panel]
        self._taken_rows = rows.stop
        self._panel_ends.append(ahead + len(panel) - 1)
        return True

    def _is_time(self, ahead: int, index: int) -> bool:
        """Whether so few panels are taken and not computed that another one may be taken."""
        if len(self._panel_ends) < PANELS_AHEAD:
            return True
        end = self._panel_ends[-PANELS_AHEAD]
        if end >= index:
            return False
        computed = self._launches[end][1]
        if ahead == index:  # there is nothing else to do
            await_event(computed)
        return bool(computed.done)

    def _reads_c(self, step: Step) -> bool:
        return step.first and self._product.beta != 0

    def _c_is_free(self, ahead: int, index: int) -> bool:
        """Whether the C of an earlier panel has left the buffer of step `ahead`."""
        earlier = self._steps[ahead].step.c_follows
        if earlier >= index:
            return False
        if earlier < 0 or ahead == index:
            return True
        return self._stores[earlier].done()

    def _load(self, placed: PlacedStep) -> list[PendingCopy]:
        step = placed.step
        after = self._launches[step.follows][1] if step.follows >= 0 else None
        passages = [Passage(self._a, step.rows, step.depth, placed.a)]
        if step.loads_b:
            passages.append(Passage(self._b, step.depth, step.columns, placed.b))
        loads = self._inward.copy_in(passages, after)
        if self._reads_c(step):
            self._await_c_buffer(step)
            passage = Passage(self._c, step.rows, step.columns, placed.c)
            loads += self._inward.copy_in([passage], None)
        return loads

    def _await_c_buffer(self, step: Step) -> None:
        """Wait until the earlier part of C in the buffer of a step has arrived at the host."""
        if step.c_follows >= 0:
            self._stores[step.c_follows].result()

    def _launch(self, index: int) -> None:
        """Enqueue the kernel of a step behind its transfers, and its way back behind it."""
        placed, product, compute = self._steps[index], self._product, self._compute
        step = placed.step
        for load in self._loads[index]:
            load.result()
            compute.wait_event(load.end)
        self._await_c_buffer(step)
        beta = product.beta if step.first else 1.0
        part = Product(placed.a, placed.b, placed.c, placed.a.columns, product.alpha, beta)
        start, end = self._events.take(), self._events.take()
        start.record(compute)
        enqueue_product(
            *(product.spec, part, self._cache_dir), sms=product.sms, splits=placed.splits
        )
        end.record(compute)
        self._launches.append((start, end))
        if step.last:
            passage = Passage(self._c, step.rows, step.columns, placed.c)
            self._stores[index] = self._outward.copy_out(passage, end)
            self._unreported.append(index)

    def _report(self) -> None:
        """Tell of the rows that have arrived, and ask whether to go on."""
        product = self._product
        while self._unreported:
            index = self._unreported[0]
            store = self._stores[index]
            if not store.done():
                break
            store.result()  # raises what went wrong, before rows are told that are not there
            self._unreported.popleft()
            step, columns = self._steps[index].step, product.c.shape[1]
            before = self._finished_elements // columns
            self._finished_elements += len(step.rows) * len(step.columns)
            rows = self._finished_elements // columns - before
            if product.progress is not None and rows:
                product.progress(rows)
            self._measure(index)
        if self._unreported and product.cancelled is not None and product.cancelled():
            raise PipelineCancelled("the product was cancelled")

    def _measure(self, index: int) -> None:
        """Add up the times of the steps up to one whose part of C has arrived."""
        for done in range(self._measured, index + 1):
            copies = self._loads[done]
            if done in self._stores:
                copies = [*copies, self._stores[done]]
            self._spans.add(self._launches[done], copies)
        self._measured = index + 1
