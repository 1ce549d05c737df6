"""Results that have arrived on the host: reports of their rows, and measured times."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.errors import PipelineCancelled
from wavetrim.kernels.events import find_runtime, has_passed
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.schedule.steps import Step
from wavetrim.kernels.transfer.copies import PendingCopy


class Spans:
    """Sums of times between CUDA events, which are read while the product runs, to save time.

    Attributes:
        kernel_seconds: Kernels.
        transfer_seconds: Transfers both ways.
    """

    def __init__(self) -> None:
        self._read = find_runtime().eventElapsedTime
        self._starts: list[Any] = []
        self._end: Any = None
        self.kernel_seconds = 0.0
        self.transfer_seconds = 0.0

    @property
    def gpu_seconds(self) -> float:
        """From the start of the first step's copies to the end of the last step's copies."""
        between = (float(self._read(start.ptr, self._end.ptr)) for start in self._starts)
        return max(between, default=0.0) / 1e3

    def add(self, launch: tuple[Any, Any], copies: Sequence[PendingCopy]) -> None:
        """Add a finished step.

        Args:
            launch: The events around its kernel.
            copies: Its copies in and out, in order.
        """
        if not self._starts:
            self._starts = [copy.start for copy in copies]
        if copies:  # none if the step's A and B are on the device already
            self._end = end = copies[-1].end
            if not has_passed(end):  # the stage may have recorded it just now
                end.synchronize()
        self.kernel_seconds += self._read(launch[0].ptr, launch[1].ptr) / 1e3
        for copy in copies:
            self.transfer_seconds += self._read(copy.start.ptr, copy.end.ptr) / 1e3


class RowReports:
    """Reports to a product's caller which of its rows have arrived. Steps arrive in order.

    Args:
        product: The product.
    """

    def __init__(self, product: HostProduct) -> None:
        self._progress, self._final = product.progress, product.final
        self._cancelled = product.cancelled
        self._columns: int = product.c.shape[1]
        self._elements = self._rows = 0

    def report(self, step: Step) -> None:
        """Report a step whose part of C has arrived."""
        self._elements += len(step.rows) * len(step.columns)
        rows = self._elements // self._columns - self._rows
        self._rows += rows
        if self._progress is not None and rows:
            self._progress(rows)
        # Results arrive from top to bottom, and in each panel from left to right.
        if self._final is not None and step.columns.stop == self._columns:
            self._final(range(step.rows.stop))

    def poll(self) -> None:
        """Poll for cancellation.

        Raises:
            PipelineCancelled: The caller cancelled the product.
        """
        if self._cancelled is not None and self._cancelled():
            raise PipelineCancelled("the product was cancelled")


class Arrivals:
    """The enqueued steps of a product, and which of their results have arrived.

    Args:
        product: The product.

    Attributes:
        spans: Times of the steps, complete after `finish`.
        computed: The CUDA event after each step's kernel.
    """

    def __init__(self, product: HostProduct) -> None:
        self.spans = Spans()
        self.computed: list[Any] = []
        self._reports = RowReports(product)
        self._steps: list[tuple[tuple[Any, Any], Sequence[PendingCopy]]] = []
        self._stores: dict[int, PendingCopy] = {}
        self._unreported: deque[tuple[int, Step]] = deque()
        self._arrived = 0
        self._measured = 0

    def add(
        self,
        step: Step,
        launch: tuple[Any, Any],
        loads: Sequence[PendingCopy],
        store: PendingCopy | None,
    ) -> None:
        """Record the next enqueued step.

        Args:
            step: The step.
            launch: The events around its kernel.
            loads: Its copies in.
            store: Its copy out; None if its part of C is not complete yet.
        """
        index = len(self._steps)
        self.computed.append(launch[1])
        self._steps.append((launch, loads if store is None else (*loads, store)))
        if store is not None:
            self._stores[index] = store
            self._unreported.append((index, step))

    def has_arrived(self, index: int) -> bool:
        """Whether the result of a step with a copy out has arrived on the host."""
        return self._stores[index].done()

    def await_arrival(self, index: int, *, awake: bool = False) -> None:
        """Wait until the result of a step has arrived; read event times meanwhile.

        Args:
            index: Index of the step.
            awake: Whether to poll all the time, which occupies a core.
        """
        store = self._stores[index]
        while self._measured < self._arrived and not store.done():
            self._measure_next()
        store.result(awake=awake)

    def report(self) -> None:
        """Report the rows that have arrived, and poll for cancellation.

        Raises:
            PipelineCancelled: The caller cancelled the product.
        """
        while self._unreported:
            index, step = self._unreported[0]
            store = self._stores[index]
            if not store.done():
                break
            store.result()  # raises an error before its rows are reported
            self._unreported.popleft()
            self._arrived = index + 1
            self._reports.report(step)
        if self._unreported:
            self._reports.poll()

    def finish(self) -> None:
        """Wait for all enqueued steps, and report them.

        Raises:
            PipelineCancelled: The caller cancelled the product.
        """
        while self._unreported:
            # No naps for the last of several panels: its rest takes less time than one.
            last = len(self._unreported) == 1 < len(self._stores)
            self.await_arrival(self._unreported[0][0], awake=last)
            self.report()
        while self._measured < self._arrived:
            self._measure_next()

    def _measure_next(self) -> None:
        """Add the times of the next finished step."""
        self.spans.add(*self._steps[self._measured])
        self._measured += 1
