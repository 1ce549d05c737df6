"""Products by C threads, which call BLAS without the interpreter's lock."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from wavetrim.cpu.blas import Blas
from wavetrim.cpu.errors import CpuError, ProductCancelled
from wavetrim.cpu.library import PRODUCT, BlasAddresses, Report
from wavetrim.cpu.prepared import Cut, Fields, Layout, Prepared, find_fields, pack_blocks, prepare
from wavetrim.cpu.products import Matrix, Product, combine
from wavetrim.native.element_types import find_accumulator
from wavetrim.native.library import find_address
from wavetrim.native.pool import ThreadPool

_CLOSED: Final = "the pool of CPU threads is closed"
_NO_MEMORY: Final = "no memory for a call of the CPU's threads"
_LARGEST_NARROW: Final = 2**31 - 1


class NativeTeam:
    """Multiplies by C threads. Thread-safe.

    Args:
        pool: The threads; its library is that of cpu/native/.
        blas: The BLAS that they call.
        cache_bytes: Size of the largest cache; 0 if unknown. A much larger C bypasses the caches.
    """

    def __init__(self, pool: ThreadPool, blas: Blas, cache_bytes: int) -> None:
        self._pool = pool
        self._blas = BlasAddresses(blas.gemm, blas.gemv, blas.integer_bytes)
        self._blas.cache_bytes = cache_bytes
        # Some milliseconds where the CPU has tiles, else none.
        self._blas.tiles = pool.library.prefers_tiles(ctypes.byref(self._blas))
        self._largest = 2**63 - 1 if blas.integer_bytes == 8 else _LARGEST_NARROW

    @property
    def is_crowded(self) -> bool:
        """Whether the threads have lately lost their cores to others."""
        return self._pool.is_crowded

    def describe(self, a: Matrix, b: Matrix, c: Matrix, alpha: float, beta: float) -> bytes | None:
        """The product for C (`PRODUCT`); None if Python threads must compute it.

        They must in a forked process, where the pool has no threads.
        """
        fields = find_fields(*map(_describe_layout, (a, b, c)))
        at = find_address(a), find_address(b), find_address(c)
        return self._pack(fields, at, alpha, beta) if fields and alpha else None

    def _pack(
        self, fields: Fields, at: tuple[int, int, int], alpha: float, beta: float
    ) -> bytes | None:
        first, second, third = at
        if (first | second | third) % fields.item or fields.largest > self._largest:
            return None
        return PRODUCT.pack(*at, *fields.numbers, alpha, beta) if self._pool.has_threads else None

    def multiply(
        self,
        product: Product,
        described: bytes,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None,
    ) -> None:
        """Compute a product that `describe` has described, and report it block by block.

        Args:
            product: The product.
            described: What `describe` returned for it.
            progress: Called with the rows newly finished.
            cancelled: Polled before each block; True ends the product.
            final: Called with all rows that are final so far.

        Raises:
            CpuError: The pool is closed.
            MemoryError: No memory for the call.
            ProductCancelled: `cancelled` returned True.
        """
        c = product.c
        cut = pack_blocks(*c.shape, product.a.shape[1], product.threads)
        sums, sums_address = _make_sums(cut, c)
        with self._pool.hold() as pool:
            if pool is None:
                raise CpuError(_CLOSED)
            call = self._pool.library.begin_call(
                pool, ctypes.byref(self._blas), described, product.threads - 1, sums_address,
                cut.blocks, cut.blocks_count,
            )  # fmt: skip
            if call is None:
                raise MemoryError(_NO_MEMORY)
            # An interrupt here leaks the call, but no thread has begun it.
            self._follow(call, product, progress, cancelled, final if sums is None else None)
        if sums is not None:
            helpers = product.threads - 1
            self._add_sums(sums, c, helpers, alpha=product.alpha, beta=product.beta)

    def _follow(
        self,
        call: int,
        product: Product,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None,
    ) -> None:
        library, report, is_on = self._pool.library, Report(), True
        try:
            while is_on:
                if cancelled is not None and cancelled():
                    raise ProductCancelled("the product was cancelled")
                is_on = library.compute_next(call, ctypes.byref(report))
                if report.terms and progress is not None:
                    progress(report.terms / product.b.size)
                if report.terms and final is not None:
                    # The rows above and below the blocks that are not finished.
                    above = range(report.open_start)
                    below = range(report.open_stop, product.c.shape[0])
                    final(tuple(rows for rows in (above, below) if rows))
        finally:
            library.end_call(call)  # returns when no thread uses the arrays any more

    def multiply_at_once(
        self, a: Matrix, b: Matrix, c: Matrix, prepared: Prepared, helpers: int, *,
        alpha: float, beta: float,
    ) -> bool:  # fmt: skip
        """Compute a whole product in one call of the library.

        Args:
            a: A[M,K].
            b: B[K,N].
            c: C[M,N].
            prepared: The product for these layouts; not a small one.
            helpers: Most threads that help the caller.
            alpha: Factor of the product.
            beta: Factor of C.

        Returns:
            False, with nothing done, if Python threads must compute it, or C is read-only or may
            share memory with A or B.

        Raises:
            CpuError: The pool is closed.
            MemoryError: No memory for the call.
        """
        fields, cut = prepared.fields, prepared.cut
        assert fields is not None, "a product that is not small has fields"
        assert cut is not None, "a product that is not small has a cut"
        at = find_address(a), find_address(b), find_address(c)
        first, (a_span, b_span, c_span) = at[2], fields.spans
        last = first + c_span
        if (at[0] < last and first < at[0] + a_span) or (at[1] < last and first < at[1] + b_span):
            return False
        described = self._pack(fields, at, alpha, beta)
        if described is None or not alpha or not c.flags.writeable:
            return False
        sums, sums_address = _make_sums(cut, c)
        pool = self._pool.take_hold()
        try:
            if pool is None:
                raise CpuError(_CLOSED)
            done = self._pool.library.multiply_at_once(
                pool, ctypes.byref(self._blas), described, helpers, sums_address, cut.blocks,
                cut.blocks_count,
            )  # fmt: skip
        finally:
            self._pool.let_go()
        if not done:
            raise MemoryError(_NO_MEMORY)
        if sums is not None:
            self._add_sums(sums, c, helpers, alpha=alpha, beta=beta)
        return True

    def _add_sums(
        self, sums: Matrix, c: Matrix, helpers: int, *, alpha: float, beta: float
    ) -> None:
        """C ← α·(partial sums) + βC, in a fixed order, so that results are repeatable.

        That is a row of ones times all partial sums, each as a row: threads share it.
        """
        ones = np.ones((1, len(sums)), sums.dtype)
        if sums.dtype == c.dtype and c.flags.c_contiguous:
            row, parts = c.reshape(1, -1), sums.reshape(len(sums), -1)
            prepared = prepare(*map(_describe_layout, (ones, parts, row)), helpers + 1)
            if (
                prepared is not None
                and not prepared.is_small
                and self.multiply_at_once(
                    ones, parts, row, prepared, helpers, alpha=alpha, beta=beta
                )
            ):
                return
        with np.errstate(all="ignore"):
            combine(sums.sum(axis=0), c, alpha=alpha, beta=beta)


def _make_sums(cut: Cut, c: Matrix) -> tuple[Matrix | None, int | None]:
    """Memory for the partial sums and its address; None where K is not cut."""
    if cut.depths == 1:
        return None, None
    sums = np.empty((cut.depths, *c.shape), find_accumulator(c.dtype))
    return sums, find_address(sums)


def _describe_layout(matrix: Matrix) -> Layout:
    return type(matrix), matrix.dtype, matrix.shape, matrix.strides
