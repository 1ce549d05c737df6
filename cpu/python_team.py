"""The pool's threads in Python: for every element type, and where there is no C library."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from wavetrim.cpu.call import Call
from wavetrim.cpu.cut import CutProduct
from wavetrim.cpu.product import Product


class PythonTeam:
    """A team of Python's threads. Safe to use from several threads.

    Args:
        threads: Threads beside the callers'.
    """

    def __init__(self, threads: int) -> None:
        # A bare queue wakes a thread several times faster than an executor does, and products of
        # a few milliseconds notice.
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._workers = [
            threading.Thread(target=self._work, name=f"cpu-block-{index}", daemon=True)
            for index in range(1, threads + 1)
        ]
        for worker in self._workers:
            worker.start()

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

        def take_product(rows_in_hand: float) -> CutProduct | None:
            nonlocal left
            rows = product.take(rows_in_hand) if left else range(0)
            if not rows:
                return None
            left -= len(rows)
            part = slice(rows.start, rows.stop)
            return CutProduct(
                product.a[part], product.b, product.c[part],
                alpha=product.alpha, beta=product.beta, threads=product.threads,
                likely_rows=product.likely_rows,
            )  # fmt: skip

        call = Call(take_product, summon=self._summon, helpers=product.threads - 1)
        call.follow(progress, cancelled)

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

        Those of a team that is being closed may be gone; then the caller does without them.
        """
        for _ in range(helpers):
            self._calls.put(call)

    def _work(self) -> None:
        """What a thread of the team does: help with one call after another."""
        while (call := self._calls.get()) is not None:
            while call.compute_next():
                pass
            del call  # it holds matrices, whose memory would be given back in the next product
