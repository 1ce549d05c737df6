"""Products by Python threads: those that C threads do not compute, or all without the C library."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeAlias

import numpy as np

from wavetrim.cpu.blocks import Block
from wavetrim.cpu.cut import CutProduct
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.products import Product
from wavetrim.native.call_threads import CallThreads

TakeProduct: TypeAlias = Callable[[float], CutProduct | None]
"""Returns the next part of a call, given the rows in progress; None after the last."""

_Work: TypeAlias = tuple[CutProduct, Block]


class PythonTeam:
    """Python threads, started when they are needed. Thread-safe.

    Args:
        threads: Largest number of threads, not counting callers.
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
            return CutProduct(product, rows)

        call = _Call(take_product, summon=self._summon, helpers=product.threads - 1)
        call.follow(progress, cancelled)

    def close(self) -> None:
        """End the threads once their blocks are done. Idempotent."""
        self._threads.close()

    def _summon(self, call: "_Call", helpers: int) -> None:
        """Let this many threads help with a call; does nothing once the team is closed."""
        with suppress(RuntimeError):
            for _ in range(helpers):
                self._threads.submit(call.help)


class _Call:
    """The parts of one product, computed without a barrier between them.

    A thread that finds no block left takes the next part while the others finish their blocks.

    Args:
        take: Returns the next part. Called by one thread at a time, but by any thread.
        summon: Called with the number of threads that should help now.
        helpers: Largest number of helpers, not counting the caller.
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
        self, progress: Callable[[float], None] | None, cancelled: Callable[[], bool] | None
    ) -> None:
        """Help until all is computed; after each block report progress and poll `cancelled`.

        Raises:
            ProductCancelled: `cancelled` returned True.
        """
        try:
            while True:
                if cancelled is not None and cancelled():
                    raise ProductCancelled("the product was cancelled")
                # No part follows once no block is left, so `_blocks` is final.
                computed = self._compute_next()
                if not computed and self._heard == self._blocks:
                    break
                rows = self._hear()
                if rows and progress is not None:
                    progress(rows)
        finally:
            self._stop()
        for product in self._products:
            product.finish()

    def _compute_next(self) -> bool:
        """Compute one block and report it, or its error; False when none is left."""
        work = self._pop()
        if work is None:
            return False
        product, block = work
        rows = product.count_rows(block)
        self._running.begin(rows)
        try:
            with np.errstate(all="ignore"):
                product.compute(block)
        except BaseException as error:  # raised again in the caller's thread
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
        """Take the next part. The caller holds the lock `_taking`."""
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

    def _hear(self) -> float:
        """Wait for a report, then sum the rows of all reports there are."""
        rows = 0.0
        news = self._news.get()
        with suppress(Empty):
            while True:
                self._heard += 1
                if isinstance(news, BaseException):
                    raise news
                rows += news
                news = self._news.get_nowait()
        return rows

    def _stop(self) -> None:
        """Drop the blocks not begun and wait for those in progress.

        No thread may write into the arrays after the call has returned.
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
    """Estimates how many rows of the blocks in progress are left, from the pace of finished ones.

    Each thread has one block at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, tuple[float, float]] = {}
        self._done_rows = 0.0
        self._done_seconds = 0.0

    def begin(self, rows: float) -> None:
        """Record that the calling thread begins a block."""
        with self._lock:
            self._begun[threading.get_ident()] = rows, time.perf_counter()

    def end(self) -> None:
        """Record that the calling thread has finished its block."""
        with self._lock:
            rows, begun = self._begun.pop(threading.get_ident())
            self._done_rows += rows
            self._done_seconds += time.perf_counter() - begun

    def count_rows(self) -> float:
        """Rows left of the blocks in progress, at the average pace of finished blocks."""
        now = time.perf_counter()
        with self._lock:
            pace = self._done_rows / self._done_seconds if self._done_seconds else 0.0
            running = list(self._begun.values())
        return sum(max(0.0, rows - pace * (now - begun)) for rows, begun in running)
