"""Threads of Python's, for element types that BLAS has not, and where there is no C library."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

import numpy as np

from wavetrim.cpu.blocks import Block
from wavetrim.cpu.cut import CutProduct
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.products import Product
from wavetrim.native.call_threads import CallThreads

_POLL_SECONDS: Final = 0.02
"""How often a thread that waits for others asks whether the call is cancelled; chosen."""

TakeProduct: TypeAlias = Callable[[float], CutProduct | None]
"""The next part of a call, given the rows that are in hand; None behind the last."""

_Work: TypeAlias = tuple[CutProduct, Block]


class PythonTeam:
    """A team of Python's threads, started when they are needed. Safe to use from several threads.

    Args:
        threads: The most threads beside the callers'.
    """

    def __init__(self, threads: int) -> None:
        self._threads = CallThreads(threads, "cpu-block")

    def multiply(
        self,
        product: Product,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        """Compute a product.

        Raises:
            ProductCancelled: `cancelled` returned True.
        """
        left = product.c.shape[0]

        def take_product(rows_in_progress: float) -> CutProduct | None:
            nonlocal left
            rows = product.take(rows_in_progress) if left else range(0)
            if not rows:
                return None
            left -= len(rows)
            part = slice(rows.start, rows.stop)
            return CutProduct(
                product.a[part], product.b, product.c[part],
                alpha=product.alpha, beta=product.beta, threads=product.threads,
                likely_rows=product.likely_rows,
            )  # fmt: skip

        call = _Call(take_product, summon=self._summon, helpers=product.threads - 1)
        call.follow(progress, cancelled)

    def close(self) -> None:
        """End the threads once their blocks are done; calling it again does nothing."""
        self._threads.close()

    def _summon(self, call: "_Call", helpers: int) -> None:
        """Have so many threads help with a call as soon as they can, if the team is open."""
        with suppress(RuntimeError):
            for _ in range(helpers):
                self._threads.submit(call.help)


class _Call:
    """Products that come one after the other, computed by threads that do not wait in between.

    Whoever finds no block left takes the next product, while the others finish their blocks.

    Args:
        take: Called by one thread at a time, whichever it is.
        summon: Called with a number of threads that can help now.
        helpers: The most threads that may help, beside the calling one.
    """

    def __init__(
        self, take: TakeProduct, *, summon: Callable[["_Call", int], None], helpers: int
    ) -> None:
        self._take, self._summon = take, summon
        self._helpers = helpers
        self._summoned = 0
        self._left: deque[_Work] = deque()
        self._products: list[CutProduct] = []
        self._taking = threading.Lock()
        self._ended = False
        self._blocks = 0
        self._heard = 0
        self._running = _Running()
        self._news: SimpleQueue[float | BaseException] = SimpleQueue()

    def help(self) -> None:
        """Compute blocks until none is left."""
        while self._compute_next():
            pass

    def follow(
        self,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        """Compute in the calling thread until all blocks are done, reporting and asking between.

        Raises:
            ProductCancelled: `cancelled` returned True.
        """
        try:
            while True:
                if cancelled is not None and cancelled():
                    raise ProductCancelled("the product was cancelled")
                # Behind the last block nothing is added, so what is awaited then is all there is.
                computed = self._compute_next()
                if not computed and self._heard == self._blocks:
                    break
                rows = self._hear(None if cancelled is None else _POLL_SECONDS)
                if rows and progress is not None:
                    progress(rows)
        finally:
            self._stop()
        for product in self._products:
            product.finish()

    def _compute_next(self) -> bool:
        """Compute one block, and tell of it or of what went wrong; False when none is left."""
        work = self._pop()
        if work is None:
            return False
        product, block = work
        rows = product.count_rows(block)
        self._running.begin(rows)
        try:
            with np.errstate(all="ignore"):
                product.compute(block)
        except BaseException as error:  # whatever it is belongs to the caller
            self._news.put(error)
        else:
            self._running.end()
            self._news.put(rows)
        return True

    def _pop(self) -> _Work | None:
        while True:
            try:
                return self._left.popleft()
            except IndexError:
                pass
            with self._taking:
                if not self._left:
                    if self._ended:
                        return None
                    self._extend()

    def _extend(self) -> None:
        """Take the next product; only under the lock."""
        try:
            product = self._take(self._running.count_rows())
        except BaseException as error:
            self._ended = True
            self._blocks += 1
            self._news.put(error)
            return
        if product is None:
            self._ended = True
            return
        blocks = product.blocks
        self._products.append(product)
        self._blocks += len(blocks)
        self._left.extend((product, block) for block in blocks)
        more = min(self._helpers, len(blocks) - 1) - self._summoned
        if more > 0:
            self._summoned += more
            self._summon(self, more)

    def _hear(self, timeout: float | None) -> float:
        """The rows newly finished: all that is told, waiting for the first; 0 after the timeout."""
        rows = 0.0
        try:
            news = self._news.get(timeout=timeout)
            while True:
                self._heard += 1
                if isinstance(news, BaseException):
                    raise news
                rows += news
                news = self._news.get_nowait()
        except Empty:
            return rows

    def _stop(self) -> None:
        """Take back the blocks that are left and wait for those in the hands of the others.

        None of them may go on writing into an array that the caller has back.
        """
        with self._taking:
            self._ended = True
        while self._left:
            try:
                self._left.popleft()
            except IndexError:
                break
            self._heard += 1
        while self._heard < self._blocks:
            self._news.get()
            self._heard += 1


class _Running:
    """Tells from the blocks that were done how far those are that threads have in hand.

    Each thread has one block at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, tuple[float, float]] = {}
        self._done_rows = 0.0
        self._done_seconds = 0.0

    def begin(self, rows: float) -> None:
        """Note that the calling thread begins a block."""
        with self._lock:
            self._begun[threading.get_ident()] = rows, time.perf_counter()

    def end(self) -> None:
        """Note that the calling thread has done its block."""
        with self._lock:
            rows, begun = self._begun.pop(threading.get_ident())
            self._done_rows += rows
            self._done_seconds += time.perf_counter() - begun

    def count_rows(self) -> float:
        """Rows that are left of the blocks in hand, if these take as long a row as those before."""
        now = time.perf_counter()
        with self._lock:
            pace = self._done_rows / self._done_seconds if self._done_seconds else 0.0
            hands = list(self._begun.values())
        return sum(max(0.0, rows - pace * (now - begun)) for rows, begun in hands)
