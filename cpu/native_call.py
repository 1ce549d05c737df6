"""One product computed by the C library, which calls Python only to take the next rows."""

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import pack
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from wavetrim.cpu.blocks import Block, cut_blocks, cut_depth, is_small
from wavetrim.cpu.errors import CpuError, ProductCancelled
from wavetrim.cpu.library import OVER, TAKE, TAKER, Report
from wavetrim.cpu.products import DTYPES, Matrix, Product, combine

NATIVE_DTYPES: Final = (np.dtype(np.float32), np.dtype(np.float64))
"""Element types that the C threads multiply."""

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
            sums = np.empty((cut.depths, len(rows), n), product.c.dtype)
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
        """Help computing until all is done; after each block report progress and poll `cancelled`.

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
    """C ← α·(partial sums) + βC, in a fixed order, so results are repeatable."""
    with np.errstate(all="ignore"):
        combine(sums.sum(axis=0), c, alpha=alpha, beta=beta)


class Cut(NamedTuple):
    """Blocks of a part.

    Attributes:
        blocks: An array of `Block` (calls.h).
        blocks_count: Number of blocks.
        depths: Number of parts that K is cut into.
    """

    blocks: bytes
    blocks_count: int
    depths: int


@lru_cache(maxsize=256)
def pack_blocks(m: int, n: int, k: int, threads: int, likely_rows: int | None) -> Cut:
    """Cut a part into blocks, packed for C.

    Args:
        m: Rows of the part, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        threads: Threads that will take the blocks.
        likely_rows: As for `cut_blocks`.
    """
    deep = cut_depth(m, n, k, threads=threads)
    blocks = deep or cut_blocks(m, n, k, threads=threads, likely_rows=likely_rows)
    return Cut(b"".join(map(_pack_block, blocks)), len(blocks), max(1, len(deep)))


def _pack_block(block: Block) -> bytes:
    return pack(
        "=6q",
        *(block.row_start, block.row_stop, block.column_start, block.column_stop),
        *(block.depth_start, block.depth_stop),
    )


_ALONE: Final = Cut(b"", 0, 1)


@lru_cache(maxsize=1024)
def find_cut(
    a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], dtype: np.dtype[Any], threads: int
) -> Cut | None:
    """The blocks of a product; none of one that the calling thread computes alone.

    Args:
        a: Shape of A.
        b: Shape of B.
        c: Shape of C.
        dtype: Element type.
        threads: Threads that take part.

    Returns:
        None if C threads do not compute it, or nobody can.
    """
    if not len(a) == len(b) == len(c) == 2 or dtype not in DTYPES:
        return None
    (m, k), n = a, b[1]
    if b[0] != k or c != (m, n) or not m * n * k:
        return None
    if is_small(m, n, k, dtype.name):
        return _ALONE
    return pack_blocks(m, n, k, threads, None) if dtype in NATIVE_DTYPES and k > 1 else None
