"""The way of products without the C library: one step after the other, copied by the driver.

The driver's copies of pageable memory occupy the calling thread, so nothing would overlap anyway.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wavetrim.kernels.events import EventPool
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import ArrivedRows, GpuTimings, HostProduct
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.transfer.transfers import copy_in, copy_out
from wavetrim.native.plain import Matrix


class PlainPath:
    """Computes products in one stream. Create it with its device as the current one.

    Args:
        compute: CuPy's stream of copies and kernels.
        memory: The device memory.
    """

    def __init__(self, compute: Any, memory: DeviceMemory) -> None:
        self._compute, self._memory = compute, memory
        self._events = EventPool()

    def multiply(self, product: HostProduct, cut: Cut) -> GpuTimings:
        """Compute a product, as `CommandPath.multiply`; with its device as the current one."""
        started = time.perf_counter()
        steps, rows = self._memory.prepare(product, cut), ArrivedRows(product)
        self._events.reclaim()  # the previous product has ended
        kernels, copies = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
        if product.hooks.begun is not None:
            product.hooks.begun()
        with self._compute:
            for index, layout in enumerate(steps.layouts):
                step = layout.step
                row, depth, column, copied = (
                    slice(part.start, part.stop)
                    for part in (step.rows, step.depth, step.columns, step.a_depth)
                )
                with self._time(copies):
                    if step.a_depth:
                        copy_in(product.a[row, copied], layout.a_in, self._compute)
                    if step.loads_b:
                        copy_in(product.b[depth, column], layout.b, self._compute)
                    if step.first and product.beta != 0:
                        copy_in(product.c[row, column], layout.c, self._compute)
                with self._time(kernels):
                    steps.find_launch(index).enqueue(self._compute.ptr)
                if step.last:
                    with self._time(copies):
                        copy_out(product.c[row, column], layout.c, self._compute)
                    rows.add(step)
                if index + 1 < len(steps.layouts):
                    rows.end_if_cancelled()
            self._compute.synchronize()
        seconds = time.perf_counter() - started
        return GpuTimings(_add_up(kernels), _add_up(copies), seconds)

    def fetch(self, b: Matrix, resident: Resident) -> None:
        """Copy an operand into its memory, and wait until it is there."""
        copy_in(b, resident.layout, self._compute)
        self._compute.synchronize()

    @contextmanager
    def _time(self, spans: list[tuple[Any, Any]]) -> Iterator[None]:
        """Record an event before and after what is enqueued in the block."""
        start, end = self._events.take(), self._events.take()
        start.record(self._compute)
        yield
        end.record(self._compute)
        spans.append((start, end))


def _add_up(spans: Sequence[tuple[Any, Any]]) -> float:
    """Seconds between pairs of events that have passed."""
    from cupy.cuda import get_elapsed_time

    return sum(float(get_elapsed_time(*span)) for span in spans) / 1e3
