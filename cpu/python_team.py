"""Products by Python threads: those that C threads cannot compute; all, without a C library."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np

from wavetrim.cpu.blocks import Block, cut_blocks, cut_depth
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.products import Matrix, Product, combine, form_product, multiply_block, scale
from wavetrim.native.call_threads import CallThreads
from wavetrim.native.element_types import BLAS_DTYPES, find_accumulator
from wavetrim.native.tuned import TEMPORARY_ELEMENTS

_Part = TypeVar("_Part")


class PythonTeam:
    """Python threads, started when they are needed. Thread-safe.

    Args:
        threads: Largest number of threads, not counting callers.
    """

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._threads = CallThreads(threads, "cpu-block")

    def multiply(
        self,
        product: Product,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        """Compute a product, and report it block by block.

        Raises:
            ProductCancelled: `cancelled` returned True.
        """
        cut = _CutProduct(product)
        call = _Call(cut)
        try:
            _poll(cancelled)
            self._add_helpers(call, min(product.threads, call.unreported) - 1)
            while call.unreported:
                call.compute_next()
                rows = call.collect()
                if rows and progress is not None:
                    progress(rows)
                _poll(cancelled)
        finally:
            call.stop()
        cut.add_sums()

    def call_each(self, function: Callable[[_Part], object], parts: Sequence[_Part]) -> None:
        """Call a function of each part, in these threads and the calling one."""
        left = iter(parts)  # shared: each part goes to one thread

        def call_next() -> None:
            for part in left:
                function(part)

        others = min(self._most, len(parts) - 1)
        helpers = [self._threads.submit(call_next) for _ in range(others)]
        try:
            call_next()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
        for helper in begun:
            helper.result()

    def close(self) -> None:
        """End the threads once their blocks are done. Idempotent."""
        self._threads.close()

    def _add_helpers(self, call: "_Call", helpers: int) -> None:
        """Let this many threads help with a call; does nothing once the team is closed."""
        with suppress(RuntimeError):
            for _ in range(helpers):
                self._threads.submit(call.help)


def _poll(cancelled: Callable[[], bool] | None) -> None:
    if cancelled is not None and cancelled():
        raise ProductCancelled("the product was cancelled")


class _Call:
    """The blocks of a product, computed by the caller and by helpers, and what they report.

    Attributes:
        unreported: Blocks that are not reported yet.
    """

    def __init__(self, cut: "_CutProduct") -> None:
        self._cut = cut
        self._left = deque(cut.blocks)
        self._reports: SimpleQueue[float | BaseException] = SimpleQueue()
        self._helping = threading.Condition()
        self._helpers = 0
        self.unreported = len(self._left)

    def help(self) -> None:
        """Compute blocks until none is left."""
        with self._helping:
            self._helpers += 1
        while self.compute_next():
            pass
        with self._helping:
            self._helpers -= 1
            self._helping.notify()

    def compute_next(self) -> bool:
        """Compute one block and report it, or its error; False when none is left."""
        try:
            block = self._left.popleft()
        except IndexError:
            return False
        try:
            with np.errstate(all="ignore"):
                self._cut.compute(block)
        except BaseException as error:  # raised again in the caller's thread
            self._reports.put(error)
        else:
            self._reports.put(self._cut.count_rows(block))
        return True

    def collect(self) -> float:
        """Wait for a report, then add up the rows of all reports that are there."""
        rows = 0.0
        report = self._reports.get()
        with suppress(Empty):
            while True:
                self.unreported -= 1
                if isinstance(report, BaseException):
                    raise report
                rows += report
                report = self._reports.get_nowait()
        return rows

    def stop(self) -> None:
        """Drop the blocks that have not begun, and wait for the helpers that compute the others.

        No thread may write into the arrays after the call has returned.
        """
        self._left.clear()
        with self._helping:
            self._helping.wait_for(lambda: not self._helpers)


class _CutProduct:
    """A product cut into blocks.

    Attributes:
        blocks: Blocks to compute once each, in any order; empty where C has no elements.
    """

    blocks: list[Block]

    def __init__(self, product: Product) -> None:
        self._product = product
        (m, n), k, threads = product.c.shape, product.a.shape[1], product.threads
        self._skips_product = product.alpha == 0 or k == 0
        self._partial_sums: dict[int, Matrix] = {}
        self.blocks = []
        if m and n:
            k = 1 if self._skips_product else k
            self.blocks = cut_depth(m, n, k, threads=threads)
            self._sums_parts = bool(self.blocks)
            if not self.blocks:
                direct = product.beta == 0 and product.c.dtype in BLAS_DTYPES
                most = None if direct else TEMPORARY_ELEMENTS
                self.blocks = cut_blocks(m, n, k, threads=threads, max_elements=most)

    def compute(self, block: Block) -> None:
        """Compute one block; may be called from any thread."""
        product = self._product
        a, b = product.a[block.rows, block.depth], product.b[block.depth, block.columns]
        c = product.c[block.rows, block.columns]
        if self._skips_product:
            scale(c, product.beta)
        elif self._sums_parts:
            self._partial_sums[block.depth_start] = form_product(a, b)
        else:
            multiply_block(a, b, c, alpha=product.alpha, beta=product.beta)

    def count_rows(self, block: Block) -> float:
        """Rows of C that a block counts for, by its share of the product."""
        share = (block.depth_stop - block.depth_start) / self.blocks[-1].depth_stop
        return block.elements * share / int(self._product.c.shape[1])

    def add_sums(self) -> None:
        """Add up the partial sums if K was cut; call it after all blocks are done."""
        if self._partial_sums:
            c = self._product.c
            total = np.zeros(c.shape, find_accumulator(c.dtype))
            with np.errstate(all="ignore"):
                # In the order of K, not of completion, so that results are reproducible bit by bit.
                for start in sorted(self._partial_sums):
                    total += self._partial_sums[start]
                combine(total, c, alpha=self._product.alpha, beta=self._product.beta)
