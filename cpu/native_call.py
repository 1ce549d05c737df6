"""One product in the C library, which calls Python only to take the next rows."""

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from wavetrim.cpu.errors import CpuError, ProductCancelled
from wavetrim.cpu.library import OVER, TAKE, TAKER, Report
from wavetrim.cpu.prepared import pack_blocks
from wavetrim.cpu.products import Matrix, Product, combine
from wavetrim.native.element_types import find_accumulator

_keys = itertools.count()
_calls: "WeakValueDictionary[int, NativeCall]" = WeakValueDictionary()


def _take_for(key: int, rows_in_progress: float) -> int:
    call = _calls[key]
    try:
        call.extend(rows_in_progress)
    except BaseException as error:  # raised again in the caller's thread
        call.failure = error
        return 0
    return 1


take_for: Final = TAKER(_take_for)
"""Callback of the library, run in a pool thread: takes the next part of a call; 0 on failure."""


class NativeCall:
    """One product in the C library. The arrays must live until `follow` returns.

    Args:
        product: The product; BLAS accepts its matrices, and K, N and α are not 0.
        library: The C library.

    Attributes:
        key: Identifies the call in callbacks.
        failure: Exception raised while a part was taken, or None.
    """

    def __init__(self, product: Product, library: ctypes.CDLL) -> None:
        self._product = product
        self._library = library
        self._address: int | None = None
        self._sums: list[tuple[slice, Matrix]] = []
        self._rows = 0
        self._adjoin = True
        self._taken = range(0)
        self._complete = False
        self.key = next(_keys)
        self.failure: BaseException | None = None
        _calls[self.key] = self

    def extend(self, rows_in_progress: float) -> None:
        """Take the next part and add it to the call, or end the parts.

        Raises:
            BaseException: Whatever `take` raises.
        """
        product = self._product
        rows = product.take(rows_in_progress)
        if not rows:
            self._complete = True
            self._library.end_parts(self._address)
            return
        self._note_taken(rows)
        k, n = product.b.shape
        cut = pack_blocks(len(rows), n, k, product.threads, product.likely_rows)
        sums_address = None
        if cut.depths > 1:
            sums = np.empty((cut.depths, len(rows), n), find_accumulator(product.c.dtype))
            self._sums.append((slice(rows.start, rows.stop), sums))
            sums_address = sums.ctypes.data
        self._rows += len(rows)
        self._complete = self._rows == product.c.shape[0]  # saves one more call of `take`
        part = rows.start, sums_address, cut.blocks, cut.blocks_count, self._complete
        if not self._library.add_part(self._address, *part):
            raise MemoryError(f"no memory for {cut.blocks_count} blocks")

    def follow(
        self,
        address: int,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None = None,
    ) -> None:
        """Help until all is computed; after each block report progress and poll `cancelled`.

        Args:
            address: Address of the library's call, which is freed here.
            progress: Called with the rows newly finished.
            cancelled: Polled; True ends the product.
            final: Called with all rows that are final so far.

        Raises:
            ProductCancelled: `cancelled` returned True.
        """
        compute, end = self._library.compute_next, self._library.end_call
        try:
            self._address = address
            terms_a_row = self._product.b.size
            report = Report()
            state = None
            while state != OVER:
                if cancelled is not None and cancelled():
                    raise ProductCancelled("the product was cancelled")
                state = compute(address, ctypes.byref(report))
                if report.terms and progress is not None:
                    progress(report.terms / terms_a_row)
                if report.terms and final is not None and self._adjoin and not self._sums:
                    final(_find_final(report))
                if state == TAKE:
                    self.extend(report.rows_in_progress)
        finally:
            end(address)  # returns when no thread uses the arrays any more
        if self.failure is not None:
            raise self.failure
        if not self._complete:
            raise CpuError("the product was interrupted while it took a part")
        self._finish()

    def _note_taken(self, rows: range) -> None:
        """Record the rows taken, and whether they form one contiguous range so far."""
        if self._taken and rows.start != self._taken.stop and rows.stop != self._taken.start:
            self._adjoin = False
        before = self._taken or rows
        self._taken = range(min(before.start, rows.start), max(before.stop, rows.stop))

    def _finish(self) -> None:
        """Add up the partial sums where K was cut."""
        product = self._product
        for rows, sums in self._sums:
            add_sums(sums, product.c[rows], alpha=product.alpha, beta=product.beta)


def _find_final(report: Report) -> tuple[range, ...]:
    """The taken rows above and below the blocks that are not finished."""
    above = range(report.taken_start, report.open_start)
    below = range(report.open_stop, report.taken_stop)
    return tuple(rows for rows in (above, below) if rows)


def add_sums(sums: Matrix, c: Matrix, *, alpha: float, beta: float) -> None:
    """C ← α·(partial sums) + βC, in a fixed order, so that results are repeatable."""
    with np.errstate(all="ignore"):
        combine(sums.sum(axis=0), c, alpha=alpha, beta=beta)
