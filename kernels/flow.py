"""One product on its way through the pipeline: what has been copied, launched and brought back."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kernels.arena import DeviceArena
from kernels.catalog import KernelSpec
from kernels.copies import PendingCopy
from kernels.errors import PipelineCancelled
from kernels.events import await_event
from kernels.gemm import multiply_on_device
from kernels.memory import Matrix
from kernels.region import DeviceRegion
from kernels.sharing import SharedRows
from kernels.splits import SplitMemory
from kernels.staging import Staging
from kernels.steps import Step


@dataclass(frozen=True, slots=True)
class HostProduct:
    """The arguments of one product: C ← αA·B + βC, all three in host memory.

    Attributes:
        spec: The kernel.
        a: A[M,K].
        b: B[K,N].
        c: C[M,N].
        alpha: Factor of A·B, not 0.
        beta: Factor of the old C.
        progress: Called with the rows of C that are newly finished.
        cancelled: Asked whether to stop.
        sms: Multiprocessors that launches are held to; None for all.
        shared: Where the rows come from, if another device takes some; None if all are ours.
        copiers: Threads that share in a copy; None for all that there are.
    """

    spec: KernelSpec
    a: Matrix
    b: Matrix
    c: Matrix
    alpha: float
    beta: float
    progress: Callable[[int], None] | None
    cancelled: Callable[[], bool] | None
    sms: int | None = None
    shared: SharedRows | None = None
    copiers: int | None = None

    def cut(self, rows: range) -> "HostProduct":
        """The part that computes some of the rows, which are all ours."""
        part = slice(rows.start, rows.stop)
        return replace(self, a=self.a[part], c=self.c[part], shared=None)


PANELS_AHEAD: Final = 3
"""Of shared rows: panels that are taken and not computed. One is being computed, one copied in."""


class Flow:
    """Walks through the steps of one product.

    Args:
        product: What is computed.
        steps: The steps in their order.
        arena: Where the buffers of the steps lie.
        inward: Copies to the device.
        outward: Copies from the device.
        compute: The stream of the kernels.
        cache_dir: Folder of compiled kernels.
    """

    def __init__(
        self,
        product: HostProduct,
        steps: tuple[Step, ...],
        *,
        arena: DeviceArena,
        inward: Staging,
        outward: Staging,
        compute: Any,
        cache_dir: Path,
    ) -> None:
        self._product = product
        self._steps = list(steps)
        self._arena = arena
        self._inward = inward
        self._outward = outward
        self._compute = compute
        self._cache_dir = cache_dir
        self._loads: list[list[PendingCopy]] = []
        self._launches: list[tuple[Any, Any]] = []
        self._stores: dict[int, PendingCopy] = {}
        self._unreported: deque[int] = deque()
        self._finished_elements = 0
        self._taken_rows = 0
        self._panel_ends: list[int] = []

    def run(self) -> float:
        """Compute the product; returns the seconds of its kernels.

        Raises:
            PipelineCancelled: The caller asked to stop.
        """
        from cupy.cuda import get_elapsed_time

        index = 0
        while index < len(self._steps):
            self._load_ahead(index)
            if index < len(self._steps):  # unless there were no rows left to take
                self._launch(index)
                self._report()
            index += 1
        while self._unreported:
            self._stores[self._unreported[0]].result()
            self._report()
        return float(sum(get_elapsed_time(*launch) for launch in self._launches)) / 1e3

    def _load_ahead(self, index: int) -> None:
        """Have operands copied in for step `index`, and for later ones whose buffers are free."""
        while len(self._loads) < len(self._steps):
            ahead = len(self._loads)
            step = self._steps[ahead]
            if step.follows >= index or (self._reads_c(step) and not self._c_is_free(ahead, index)):
                return
            if not self._take_rows(ahead, index):
                return
            self._loads.append(self._load(self._steps[ahead]))

    def _take_rows(self, ahead: int, index: int) -> bool:
        """Take the rows of step `ahead`, if they are shared and it is time; False if not."""
        shared, step = self._product.shared, self._steps[ahead]
        if shared is None or step.rows.start < self._taken_rows:
            return True
        if not self._is_time(ahead, index):
            return False
        rows = shared.take(len(step.rows))
        if not rows:
            del self._steps[ahead:]
            return False
        panel = [one for one in self._steps[ahead:] if one.rows == step.rows]
        if len(rows) < len(step.rows):  # and so the last ones
            self._steps[ahead:] = [replace(one, rows=rows) for one in panel]
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
        earlier = self._steps[ahead].c_follows
        if earlier >= index:
            return False
        if earlier < 0 or ahead == index:
            return True
        return self._stores[earlier].done()

    def _load(self, step: Step) -> list[PendingCopy]:
        product, rows, columns, depth = self._product, *_index(step)
        after = self._launches[step.follows][1] if step.follows >= 0 else None
        a, b, c = self._place(step)
        loads = [self._inward.copy_in(product.a[rows, depth], a, after=after)]
        if step.loads_b:
            loads.append(self._inward.copy_in(product.b[depth, columns], b, after=after))
        if self._reads_c(step):
            self._await_c_buffer(step)
            loads.append(self._inward.copy_in(product.c[rows, columns], c))
        return loads

    def _await_c_buffer(self, step: Step) -> None:
        """Wait until the earlier part of C in the buffer of a step has arrived at the host."""
        if step.c_follows >= 0:
            self._stores[step.c_follows].result()

    def _place(self, step: Step) -> tuple[DeviceRegion, DeviceRegion, DeviceRegion]:
        """The regions of A, B and C that a step computes with."""
        item_bytes = self._product.c.itemsize
        a = self._arena.place("a", step.a_slot, step.buffer_depth)
        b = self._arena.place("b", step.b_slot, len(step.columns))
        c = self._arena.place("c", step.c_slot, len(step.columns))
        offset = step.depth_offset
        return a.skip(0, offset, item_bytes), b.skip(offset, 0, item_bytes), c

    def _launch(self, index: int) -> None:
        """Enqueue the kernel of a step behind its transfers, and its way back behind it."""
        from cupy.cuda import Event

        step, product = self._steps[index], self._product
        for load in self._loads[index]:
            load.result()
            self._compute.wait_event(load.end)
        self._await_c_buffer(step)
        a, b, c = self._place(step)
        m, n, k = len(step.rows), len(step.columns), len(step.depth)
        dtype = product.c.dtype
        start, end = Event(), Event()
        start.record(self._compute)
        multiply_on_device(
            product.spec,
            self._arena.view(a, m, k, dtype),
            self._arena.view(b, k, n, dtype),
            self._arena.view(c, m, n, dtype),
            alpha=product.alpha,
            beta=product.beta if step.first else 1.0,
            sms=product.sms,
            stream=self._compute,
            cache_dir=self._cache_dir,
            splits=self._find_splits(step),
        )
        end.record(self._compute)
        self._launches.append((start, end))
        if step.last:
            rows, columns, _ = _index(step)
            self._stores[index] = self._outward.copy_out(c, product.c[rows, columns], after=end)
            self._unreported.append(index)

    def _find_splits(self, step: Step) -> SplitMemory | None:
        """Where splits lie, if the kernel makes any: those of B stay as long as B does."""
        pointer = self._arena.find_split_memory()
        if pointer is None:
            return None
        return SplitMemory(pointer, step.buffer_depth, step.depth_offset, step.loads_b)

    def _report(self) -> None:
        """Tell of the rows that have arrived, and ask whether to go on."""
        product = self._product
        while self._unreported:
            index = self._unreported[0]
            if not self._stores[index].done():
                break
            self._stores[
                index
            ].result()  # raises what went wrong, before rows are told that are not there
            self._unreported.popleft()
            step, columns = self._steps[index], product.c.shape[1]
            before = self._finished_elements // columns
            self._finished_elements += len(step.rows) * len(step.columns)
            rows = self._finished_elements // columns - before
            if product.progress is not None and rows:
                product.progress(rows)
        if self._unreported and product.cancelled is not None and product.cancelled():
            raise PipelineCancelled("the product was cancelled")


def _index(step: Step) -> tuple[slice, slice, slice]:
    """Rows, columns and depth of a step as indices."""
    rows, columns, depth = step.rows, step.columns, step.depth
    return (
        slice(rows.start, rows.stop),
        slice(columns.start, columns.stop),
        slice(depth.start, depth.stop),
    )
