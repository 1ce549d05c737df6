"""Products by Python threads: those that C threads cannot compute; all, without a C library."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from queue import SimpleQueue
from typing import TypeVar

import numpy as np

from wavetrim.cpu.blocks import Block, cut_blocks, cut_depth
from wavetrim.cpu.products import Reports, combine, form_product, multiply_block, scale
from wavetrim.native.call_threads import CallThreads
from wavetrim.native.element_types import BLAS_DTYPES, find_accumulator
from wavetrim.native.plain import Matrix
from wavetrim.native.tuned import TEMPORARY_ELEMENTS

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


class PythonTeam:
    """Python threads, started when they are needed. Thread-safe.

    Args:
        threads: Largest number of threads, not counting callers.
    """

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._threads = CallThreads(threads, "cpu-block")

    def multiply(
        self, a: Matrix, b: Matrix, c: Matrix, threads: int, *,
        alpha: float, beta: float, reports: Reports,
    ) -> None:  # fmt: skip
        """Compute a product by some threads, and report it block by block.

        Raises:
            ProductCancelled: `reports.cancelled` returned True.
        """
        cut = _CutProduct(a, b, c, threads, alpha=alpha, beta=beta)
        reports.end_if_cancelled()
        with closing(self._share(cut.compute, cut.blocks, threads - 1)) as computed:
            for rows in computed:
                if reports.progress is not None:
                    reports.progress(rows)
                reports.end_if_cancelled()
        cut.add_sums()

    def call_each(self, function: Callable[[_Part], object], parts: Sequence[_Part]) -> None:
        """Call a function of each part, in these threads and the calling one."""
        with closing(self._share(function, parts, self._most)) as results:
            for _ in results:
                pass

    def close(self) -> None:
        """End the threads once their blocks are done. Idempotent."""
        self._threads.close()

    def _share(
        self, function: Callable[[_Part], _Result], parts: Sequence[_Part], helpers: int
    ) -> Generator[_Result, None, None]:
        """Call a function of each part, in some threads and the calling one; yields the results.

        When it ends, also by an error, no thread is in a call any more.
        """
        left = iter(parts)  # shared: each part goes to one thread
        results: SimpleQueue[Future[_Result]] = SimpleQueue()

        def call_next() -> bool:
            """Call the function of the next part; False when none is left."""
            for part in left:
                called: Future[_Result] = Future()
                try:
                    called.set_result(function(part))
                except BaseException as error:  # raised again in the caller's thread
                    called.set_exception(error)
                results.put(called)
                return True
            return False

        def call_all() -> None:
            while call_next():
                pass

        others: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # the threads were ended
                others.extend(
                    self._threads.submit(call_all) for _ in range(min(helpers, len(parts) - 1))
                )
            for _ in parts:
                if results.empty():
                    call_next()
                yield results.get().result()
        finally:
            for _ in left:
                pass  # no thread begins another part
            wait([other for other in others if not other.cancel()])


class _CutProduct:
    """A product cut into blocks.

    Attributes:
        blocks: Blocks to compute once each, in any order; empty where C has no elements.
    """

    def __init__(
        self, a: Matrix, b: Matrix, c: Matrix, threads: int, *, alpha: float, beta: float
    ) -> None:
        self._a, self._b, self._c, self._alpha, self._beta = a, b, c, alpha, beta
        (m, n), k = c.shape, a.shape[1]
        self._has_terms = alpha != 0 and k != 0
        self._partial_sums: dict[int, Matrix] = {}
        depth = k if self._has_terms else 1
        deep = cut_depth(m, n, depth, threads=threads) if c.size else []
        self._sums_parts = bool(deep)
        direct = beta == 0 and c.dtype in BLAS_DTYPES
        most = None if direct else TEMPORARY_ELEMENTS
        self.blocks: list[Block] = deep
        if c.size and not deep:
            self.blocks = cut_blocks(m, n, depth, threads=threads, max_elements=most)

    def compute(self, block: Block) -> float:
        """Compute a block, in any thread; returns the rows of C that it counts for."""
        a, b = self._a[block.rows, block.depth], self._b[block.depth, block.columns]
        c = self._c[block.rows, block.columns]
        with np.errstate(all="ignore"):
            if not self._has_terms:
                scale(c, self._beta)
            elif self._sums_parts:
                self._partial_sums[block.depth_start] = form_product(a, b)
            else:
                multiply_block(a, b, c, alpha=self._alpha, beta=self._beta)
        share = (block.depth_stop - block.depth_start) / self.blocks[-1].depth_stop
        return float(c.size * share / self._c.shape[1])

    def add_sums(self) -> None:
        """Add up the partial sums if K was cut; call it after all blocks are done."""
        if self._sums_parts:
            total = np.zeros(self._c.shape, find_accumulator(self._c.dtype))
            with np.errstate(all="ignore"):
                # In the order of K, not of completion, so that results are reproducible bit by bit.
                for start in sorted(self._partial_sums):
                    total += self._partial_sums[start]
                combine(total, self._c, alpha=self._alpha, beta=self._beta)
