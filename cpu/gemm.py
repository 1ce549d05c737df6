"""C ← αA·B + βC on the CPU: one pool of threads over blocks of C."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from cpu.call import Call
from cpu.cut import CutProduct
from cpu.errors import CpuError, OperandError
from cpu.operands import check_operands
from cpu.products import Matrix
from cpu.threads import limit_blas_threads, usable_cores


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
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
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
        parts = iter([range(a.shape[0])])
        return self.multiply_rows(
            a, b, c, lambda _: next(parts, range(0)),
            alpha=alpha, beta=beta, threads=threads, progress=progress, cancelled=cancelled,
        )  # fmt: skip

    def multiply_rows(
        self,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        take: Callable[[float], range],
        *,
        likely_rows: int | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        threads: int | None = None,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> float:
        """As `multiply`, but only the rows of C that `take` gives, part by part.

        A part is taken when no block of the one before is left to begin, so no thread waits for
        another before `take` has no more.

        Args:
            a: A[M,K].
            b: B[K,N].
            c: C[M,N]; rows that are not taken are neither read nor written.
            take: Called by one thread of the pool at a time, whichever it is, with the rows that
                are left of blocks under way, estimated; returns the next ones, and none when there
                are no more. What it raises ends the product.
            likely_rows: How many rows `take` is likely to give in all; blocks are cut as for so
                many (`cpu.blocks.cut_strips`). None where that is not known.
            alpha: Factor of the product.
            beta: Factor of C.
            threads: Threads of the pool that take part; None for all.
            progress: Called in the calling thread with the rows newly finished.
            cancelled: Polled in the calling thread; True ends the product.

        Returns:
            Seconds that the rows took.

        Raises:
            OperandError: As `multiply` does.
            ProductCancelled: `cancelled` returned True.
            CpuError: The pool is closed.
        """
        started = time.perf_counter()
        check_operands(a, b, c, alpha=alpha, beta=beta)
        if self._closed:
            raise CpuError("the pool of CPU threads is closed")
        threads = min(threads or self.threads, self.threads)

        def take_product(rows_in_hand: float) -> CutProduct | None:
            rows = take(rows_in_hand)
            if not rows:
                return None
            part = slice(rows.start, rows.stop)
            return CutProduct(
                a[part], b, c[part],
                alpha=alpha, beta=beta, threads=threads, likely_rows=likely_rows,
            )  # fmt: skip

        call = Call(take_product, summon=self._summon, helpers=threads - 1)
        call.follow(progress, cancelled)
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

    def _summon(self, call: Call, helpers: int) -> None:
        """Have so many threads help with a call as soon as they can.

        Those of a pool that is being closed may be gone; then the caller does without them.
        """
        for _ in range(helpers):
            self._calls.put(call)

    def _work(self) -> None:
        """What a thread of the pool does: help with one call after another."""
        while (call := self._calls.get()) is not None:
            while call.compute_next():
                pass
