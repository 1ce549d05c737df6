"""C ← αA·B + βC on the CPU: one pool of threads over blocks of C."""

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

import numpy as np

from cpu.blocks import Block, cut_blocks, cut_depth
from cpu.errors import CpuError, OperandError, ProductCancelled
from cpu.operands import check_operands
from cpu.products import (
    TEMPORARY_ELEMENTS,
    Matrix,
    accumulator_dtype,
    combine,
    form_product,
    multiply_block,
    scale,
)
from cpu.threads import limit_blas_threads, usable_cores

_POLL_SECONDS = 0.02


class CpuPool:
    """Multiplies matrices in host memory with a fixed number of threads, the caller's among them.

    Holds BLAS to one thread for the whole process (see `limit_blas_threads`). Several threads may
    call `multiply` at once; their blocks share the pool. Usable as a context manager.

    Args:
        threads: Threads to compute with; None for `usable_cores()`.

    Raises:
        OperandError: `threads` is below 1.
    """

    threads: int

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise OperandError("threads", threads, "at least 1")
        limit_blas_threads()
        self.threads = usable_cores() if threads is None else threads
        # A bare queue wakes a thread several times faster than an executor does, and products of
        # a few milliseconds notice.
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._workers = [
            threading.Thread(target=self._work, name=f"cpu-block-{index}", daemon=True)
            for index in range(1, self.threads)
        ]
        for worker in self._workers:
            worker.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def multiply(
        self,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        threads: int | None = None,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> float:
        """C ← αA·B + βC in place, as BLAS does it: β = 0 never reads C, α = 0 neither A nor B.

        Args:
            a: A[M,K], any strides.
            b: B[K,N], any strides.
            c: C[M,N], any strides, writable, sharing no memory with A and B.
            alpha: Factor of the product; a whole number for integers.
            beta: Factor of C; a whole number for integers.
            threads: Threads of the pool that take part, from 1, the caller's among them; None for
                all. The others sleep.
            progress: Called in the calling thread with the rows newly finished (elements of C
                over N, so fractions occur); the calls add up to M.
            cancelled: Polled in the calling thread; True ends the product.

        Returns:
            Seconds that the product took.

        Raises:
            OperandError: Shapes or element types do not fit, C shares memory with A or B, or a
                factor of an integer product is no whole number.
            ProductCancelled: `cancelled` returned True; C holds an unfinished product.
            CpuError: The pool is closed.
        """
        started = time.perf_counter()
        check_operands(a, b, c, alpha=alpha, beta=beta)
        threads = min(threads or self.threads, self.threads)
        product = _Product(a, b, c, alpha=alpha, beta=beta, threads=threads)
        if product.blocks:
            call = _Call(product)
            with self._closing:
                if self._closed:
                    raise CpuError("the pool of CPU threads is closed")
                for _ in range(min(threads, len(product.blocks)) - 1):
                    self._calls.put(call)
            call.follow(progress, cancelled)
            product.finish()
        return time.perf_counter() - started

    def close(self) -> None:
        """End the threads once their blocks are done; calling it again does nothing."""
        with self._closing:
            if not self._closed:
                self._closed = True
                for _ in self._workers:
                    self._calls.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        """What a thread of the pool does: help with one call after another."""
        while (call := self._calls.get()) is not None:
            while call.compute_next():
                pass


class _Product:
    """One call of `multiply`: its operands, its blocks, and what is done with a block."""

    def __init__(
        self, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float, threads: int
    ) -> None:
        self.a, self.b, self.c = a, b, c
        self.alpha, self.beta = alpha, beta
        self.skips_product = alpha == 0 or a.shape[1] == 0
        m, n = c.shape
        k = 1 if self.skips_product else a.shape[1]
        self.partial_sums: dict[int, Matrix] = {}
        self.blocks: list[Block] = []
        if m and n:
            self.blocks = cut_depth(m, n, k, threads=threads)
            self.sums_parts = bool(self.blocks)
            if not self.blocks:
                direct = beta == 0 and c.dtype.kind == "f" and c.dtype != np.float16
                most = None if direct else TEMPORARY_ELEMENTS
                self.blocks = cut_blocks(m, n, k, threads=threads, max_elements=most)

    def compute(self, block: Block) -> None:
        """Do one block; called by the pool's threads, each block once."""
        a, b = self.a[block.rows, block.depth], self.b[block.depth, block.columns]
        c = self.c[block.rows, block.columns]
        if self.skips_product:
            scale(c, self.beta)
        elif self.sums_parts:
            self.partial_sums[block.depth_start] = form_product(a, b)
        else:
            multiply_block(a, b, c, alpha=self.alpha, beta=self.beta)

    def finish(self) -> None:
        """Add up the parts where K was cut."""
        if self.partial_sums:
            total = np.zeros(self.c.shape, accumulator_dtype(self.c.dtype))
            # In the order of K, not of the clock, so that the same product has the same bits.
            for start in sorted(self.partial_sums):
                total += self.partial_sums[start]
            with np.errstate(all="ignore"):
                combine(total, self.c, alpha=self.alpha, beta=self.beta)

    @property
    def rows_per_element(self) -> float:
        """Rows of C that one finished element of a block counts for."""
        rows: int = self.c.shape[0]
        return rows / sum(block.elements for block in self.blocks)


class _Call:
    """The blocks of one product that are left, and the news of those that are done."""

    def __init__(self, product: _Product) -> None:
        self._product = product
        self._left = deque(product.blocks)
        self._awaited = len(product.blocks)
        self._news: SimpleQueue[int | BaseException] = SimpleQueue()

    def compute_next(self) -> bool:
        """Compute one block, and tell of it or of what went wrong; False when none was left."""
        try:
            block = self._left.popleft()
        except IndexError:
            return False
        try:
            with np.errstate(all="ignore"):
                self._product.compute(block)
        except BaseException as error:  # whatever it is belongs to the caller
            self._news.put(error)
        else:
            self._news.put(block.elements)
        return True

    def follow(
        self,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        """Compute in the calling thread until all blocks are done, reporting and asking between."""
        try:
            while self._awaited:
                if cancelled is not None and cancelled():
                    raise ProductCancelled("the product was cancelled")
                self.compute_next()
                finished = self._await_news(None if cancelled is None else _POLL_SECONDS)
                if isinstance(finished, BaseException):
                    raise finished
                if finished and progress is not None:
                    progress(finished * self._product.rows_per_element)
        finally:
            self._stop()

    def _await_news(self, timeout: float | None) -> int | BaseException:
        """The elements that are newly finished, or an error; 0 after the timeout."""
        try:
            news = self._news.get(timeout=timeout)
        except Empty:
            return 0
        self._awaited -= 1
        return news

    def _stop(self) -> None:
        """Take back the blocks that are left and wait for those in the hands of the others.

        None of them may go on writing into an array that the caller has back.
        """
        while self._left:
            try:
                self._left.popleft()
            except IndexError:
                break
            self._awaited -= 1
        while self._awaited:
            self._await_news(None)
