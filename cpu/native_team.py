"""Products by C threads, which call BLAS without the interpreter's lock."""

import ctypes
from pathlib import Path
from typing import Final

import numpy as np

from wavetrim.cpu.blas import Blas, find_blas
from wavetrim.cpu.errors import CpuError
from wavetrim.cpu.library import CPU_LIBRARY, PRODUCT, Report
from wavetrim.cpu.operands import check_operands
from wavetrim.cpu.prepared import Prepared, describe_layout, prepare
from wavetrim.cpu.products import NO_REPORTS, Reports, combine
from wavetrim.native.element_types import find_accumulator
from wavetrim.native.library import load_library
from wavetrim.native.plain import Matrix, find_address, find_addresses
from wavetrim.native.pool import ThreadPool

_LARGEST_NARROW: Final = 2**31 - 1


class NativeTeam:
    """Multiplies by C threads. Thread-safe.

    Args:
        pool: The threads; its library is that of cpu/native/.
        blas: The BLAS that they call.
    """

    def __init__(self, pool: ThreadPool, blas: Blas) -> None:
        self._pool = pool
        self._blas = Blas(blas.gemm, blas.gemv, blas.integer_bytes)
        # Some milliseconds where the CPU has tiles, else none.
        self._blas.tiles = pool.library.prefers_tiles(ctypes.byref(self._blas))
        self._largest = 2**63 - 1 if blas.integer_bytes == 8 else _LARGEST_NARROW

    @classmethod
    def open(cls, threads: int, cache_dir: Path | None) -> "NativeTeam | None":
        """Start this many threads, compiling their library; None without it or a BLAS."""
        library = load_library(CPU_LIBRARY, cache_dir)
        blas = None if library is None else find_blas()
        if library is None or blas is None:
            return None
        return cls(ThreadPool(library, threads, settles=True), blas)

    def multiply(
        self, a: Matrix, b: Matrix, c: Matrix, prepared: Prepared, threads: int, *,
        alpha: float, beta: float, reports: Reports = NO_REPORTS,
    ) -> bool:  # fmt: skip
        """Compute a whole product in one call of the library, or block by block if it is reported.

        Args:
            a: A[M,K].
            b: B[K,N].
            c: C[M,N].
            prepared: The product for these layouts; not a small one.
            threads: Threads that compute, the caller included.
            alpha: Factor of the product.
            beta: Factor of C.
            reports: Called with what is done.

        Returns:
            False, with nothing done, if Python threads must compute it. They must in a forked
            process, where the pool has no threads.

        Raises:
            OperandError: C is read-only or shares memory with A or B.
            CpuError: The pool is closed.
            MemoryError: No memory for the call.
            ProductCancelled: `reports.cancelled` returned True.
        """
        at = find_addresses(a, b, c)
        is_aligned = (at[0] | at[1] | at[2]) % prepared.item == 0
        if not is_aligned or not alpha or prepared.largest > self._largest:
            return False
        if not self._pool.has_threads:
            return False
        if not c.flags.writeable or _may_overlap(at, prepared.spans):
            check_operands(a, b, c, alpha=alpha, beta=beta)  # by exact overlap
        sums, sums_address = _make_sums(prepared, c)
        with self._pool as pool:
            if pool is None:
                raise CpuError("the pool of CPU threads is closed")
            call = (
                pool, ctypes.byref(self._blas),
                PRODUCT.pack(*at, *prepared.numbers, alpha, beta), threads - 1, sums_address,
                prepared.blocks, prepared.blocks_count,
            )  # fmt: skip
            library = self._pool.library
            is_reported = reports != NO_REPORTS
            begun = (library.begin_call if is_reported else library.multiply_at_once)(*call)
            if not begun:
                raise MemoryError("no memory for a call of the CPU's threads")
            # An interrupt here leaks the call, but no thread has begun it.
            if is_reported:
                self._compute_reported(
                    begun, reports, b.size, c.shape[0], may_be_final=sums is None
                )
        if sums is not None:
            self._add_sums(sums, c, threads, alpha=alpha, beta=beta)
        return True

    def close(self) -> None:
        """End the threads once their blocks are done. Idempotent."""
        self._pool.close()

    def _compute_reported(
        self, call: int, reports: Reports, terms: int, rows: int, *, may_be_final: bool
    ) -> None:
        """Compute a call's blocks one by one, and report them. `terms` are N · K, of a row of C."""
        library, report, is_on = self._pool.library, Report(), True
        try:
            while is_on:
                reports.end_if_cancelled()
                is_on = library.compute_next(call, ctypes.byref(report))
                if report.terms and reports.progress is not None:
                    reports.progress(report.terms / terms)
                if report.terms and reports.final is not None and may_be_final:
                    # The rows above and below the unfinished blocks.
                    above, below = range(report.open_start), range(report.open_stop, rows)
                    reports.final(tuple(found for found in (above, below) if found))
        finally:
            library.end_call(call)  # returns when no thread uses the arrays any more

    def _add_sums(
        self, sums: Matrix, c: Matrix, threads: int, *, alpha: float, beta: float
    ) -> None:
        """C ← α·(partial sums) + βC, in a fixed order, so that results are repeatable.

        It is a product, which threads can share: a row of ones times the partial sums, each a row.
        """
        ones = np.ones((1, len(sums)), sums.dtype)
        if sums.dtype == c.dtype and c.flags.c_contiguous:
            row, parts = c.reshape(1, -1), sums.reshape(len(sums), -1)
            prepared = prepare(*map(describe_layout, (ones, parts, row)), threads)
            if prepared is not None and not prepared.is_small:
                done = self.multiply(ones, parts, row, prepared, threads, alpha=alpha, beta=beta)
                if done:
                    return
        with np.errstate(all="ignore"):
            combine(sums.sum(axis=0), c, alpha=alpha, beta=beta)


def _may_overlap(at: tuple[int, int, int], spans: tuple[int, ...]) -> bool:
    """Whether the memory from C's first element to its last overlaps with A's or B's."""
    a, b, c = at
    last = c + spans[2]
    return (a < last and c < a + spans[0]) or (b < last and c < b + spans[1])


def _make_sums(prepared: Prepared, c: Matrix) -> tuple[Matrix | None, int | None]:
    """Memory for the partial sums and its address; None where K is not cut."""
    if prepared.depths == 1:
        return None, None
    sums = np.empty((prepared.depths, *c.shape), find_accumulator(c.dtype))
    return sums, find_address(sums)
