"""The steps of a staged product: which of their results have arrived, and their measured times."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.events import find_runtime, has_passed
from wavetrim.kernels.pipeline.host_product import ArrivedRows, GpuTimings, HostProduct
from wavetrim.kernels.schedule.steps import Step
from wavetrim.kernels.transfer.copies import PendingCopy


class _Spans:
    """Sums of times between CUDA events, which are read while the product runs, to save time."""

    def __init__(self) -> None:
        self._read = find_runtime().eventElapsedTime
        self._starts: list[Any] = []
        self._end: Any = None
        self._kernel_seconds = 0.0
        self._transfer_seconds = 0.0

    def add_up(self) -> GpuTimings:
        """The times of all steps; the last from the start of the first step's copies to the end."""
        between = (float(self._read(start.ptr, self._end.ptr)) for start in self._starts)
        gpu_seconds = max(between, default=0.0) / 1e3
        return GpuTimings(self._kernel_seconds, self._transfer_seconds, gpu_seconds)

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
        self._kernel_seconds += self._read(launch[0].ptr, launch[1].ptr) / 1e3
        for copy in copies:
            self._transfer_seconds += self._read(copy.start.ptr, copy.end.ptr) / 1e3


class Arrivals:
    """The enqueued steps of a product, and which of their results have arrived.

    Args:
        product: The product.

    Attributes:
        computed: The CUDA event after each step's kernel.
    """

    def __init__(self, product: HostProduct) -> None:
        self._spans = _Spans()
        self.computed: list[Any] = []
        self._rows = ArrivedRows(product)
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
            self._rows.add(step)
        if self._unreported:
            self._rows.end_if_cancelled()

    def finish(self) -> GpuTimings:
        """Wait for all enqueued steps, report them, and return the times on the device.

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
        return self._spans.add_up()

    def _measure_next(self) -> None:
        """Add the times of the next finished step."""
        self._spans.add(*self._steps[self._measured])
        self._measured += 1
