"""C ← αA·B + βC on the CPU: one pool of threads over blocks of C."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

import numpy as np

from cpu.blocks import Block, cut_blocks, cut_depth
from cpu.errors import CpuError, OperandError, ProductCancelled
from cpu.products import (
    DTYPES,
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
        self._executor = ThreadPoolExecutor(
            max(1, self.threads - 1), thread_name_prefix="cpu-block"
        )
        self._closed = threading.Event()

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
        _check_operands(a, b, c, alpha, beta)
        if self._closed.is_set():
            raise CpuError("the pool of CPU threads is closed")
        product = _Product(a, b, c, alpha=alpha, beta=beta, threads=self.threads)
        if product.blocks:
            self._compute(product, progress, cancelled)
        return time.perf_counter() - started

    def close(self) -> None:
        """Wait for the products in flight and end the threads; calling it again does nothing."""
        self._closed.set()
        self._executor.shutdown(wait=True)

    def _compute(
        self,
        product: "_Product",
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        left = deque(product.blocks)
        news: SimpleQueue[int | BaseException] = SimpleQueue()
        # The calling thread computes too: it is awake already, and its core would idle.
        helpers = min(self.threads, len(left)) - 1
        workers = [self._executor.submit(_drain, product, left, news) for _ in range(helpers)]
        try:
            _follow(product, left, news, progress, cancelled)
        finally:
            # On the way out of an error the others stop at their next block; none may go on
            # writing into an array that the caller has back.
            left.clear()
            wait(workers)
        product.finish()


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


def _drain(product: _Product, left: deque[Block], news: SimpleQueue[int | BaseException]) -> None:
    """Compute blocks until none is left."""
    while _compute_next(product, left, news):
        pass


def _compute_next(
    product: _Product, left: deque[Block], news: SimpleQueue[int | BaseException]
) -> bool:
    """Compute one block, and tell of it or of what went wrong; False when none was left."""
    try:
        block = left.popleft()
    except IndexError:
        return False
    try:
        with np.errstate(all="ignore"):
            product.compute(block)
    except BaseException as error:  # whatever it is belongs to the caller
        left.clear()
        news.put(error)
    else:
        news.put(block.elements)
    return True


def _follow(
    product: _Product,
    left: deque[Block],
    news: SimpleQueue[int | BaseException],
    progress: Callable[[float], None] | None,
    cancelled: Callable[[], bool] | None,
) -> None:
    """Compute in the calling thread until every block is done, reporting and asking between."""
    awaited = len(product.blocks)
    rows_per_element = product.rows_per_element
    while awaited:
        if cancelled is not None and cancelled():
            raise ProductCancelled("the product was cancelled")
        _compute_next(product, left, news)
        try:
            finished = news.get(timeout=None if cancelled is None else _POLL_SECONDS)
        except Empty:
            continue
        if isinstance(finished, BaseException):
            raise finished
        awaited -= 1
        if progress is not None:
            progress(finished * rows_per_element)


def _check_operands(a: Matrix, b: Matrix, c: Matrix, alpha: float, beta: float) -> None:
    for name, operand in (("a", a), ("b", b), ("c", c)):
        _check_matrix(name, operand, c.dtype)
    if a.shape[1] != b.shape[0]:
        raise OperandError("b", f"{b.shape}", f"of {a.shape[1]} rows, the columns of A {a.shape}")
    if c.shape != (a.shape[0], b.shape[1]):
        raise OperandError("c", f"{c.shape}", f"of shape {(a.shape[0], b.shape[1])}")
    if not c.flags.writeable:
        raise OperandError("c", "read-only", "writable")
    for name, operand in (("a", a), ("b", b)):
        if np.shares_memory(operand, c):
            raise OperandError("c", f"in the memory of {name}", "in memory of its own")
    for name, factor in (("alpha", alpha), ("beta", beta)):
        if c.dtype.kind in "iu" and not float(factor).is_integer():
            raise OperandError(name, factor, f"a whole number for {c.dtype} matrices")


def _check_matrix(name: str, operand: Matrix, dtype: np.dtype[Any]) -> None:
    if operand.ndim != 2:
        raise OperandError(name, f"an array of {operand.ndim} dimensions", "a matrix")
    if operand.dtype not in DTYPES:
        known = ", ".join(sorted(known.name for known in DTYPES))
        raise OperandError(name, f"of type {operand.dtype.str}", f"one of {known}")
    if operand.dtype != dtype:
        raise OperandError(name, f"of type {operand.dtype}", f"of type {dtype}, as C is")
