"""C ← αA·B + βC on the CPU: one pool of threads over blocks of C."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.block_sums import BlockSums
from wavetrim.cpu.blocks import can_share
from wavetrim.cpu.errors import CpuError, OperandError
from wavetrim.cpu.library import load_cpu_library
from wavetrim.cpu.native_team import NATIVE_DTYPES, NativeTeam
from wavetrim.cpu.operands import check_operands
from wavetrim.cpu.products import Matrix, Product
from wavetrim.cpu.python_team import PythonTeam
from wavetrim.cpu.threads import hold_blas, limit_blas_threads, usable_cores
from wavetrim.native.pool import ThreadPool


class CpuPool:
    """Multiplies matrices in host memory with a fixed number of threads, the caller's among them.

    Holds BLAS to one thread, for the life of the process (see `limit_blas_threads`) unless it is
    lent. Several threads may call `multiply` at once; their blocks share the pool. Usable as a
    context manager.

    Products of float32 and float64 go to threads in C, if there is a C library and a BLAS for it
    and BLAS takes the matrices as they lie; all others go to as many threads in Python. The library
    is compiled for the first product that threads can share, or by `prepare`.

    Args:
        threads: Threads to compute with; None for `usable_cores()`.
        cache_dir: Folder of compiled code, the C library's too; None for the library that lies
            beside its source, or none.
        native: Whether the C library is to be used where there is one.
        yields: Whether its threads leave the cores to all others that want them, as those that feed
            a GPU do. Without one they would only be slowed by whatever else runs on the machine.
        lends_blas: Whether BLAS has its threads back between products, for others in the process.

    Attributes:
        threads: Threads of the pool, the caller's among them.

    Raises:
        OperandError: `threads` is below 1.
    """

    threads: int

    def __init__(
        self,
        threads: int | None = None,
        *,
        cache_dir: Path | None = None,
        native: bool = True,
        yields: bool = False,
        lends_blas: bool = False,
    ) -> None:
        if threads is not None and threads < 1:
            raise OperandError("threads", threads, "at least 1")
        self._hold: AbstractContextManager[None] = hold_blas if lends_blas else nullcontext()
        if not lends_blas:
            limit_blas_threads()
        self.threads = usable_cores() if threads is None else threads
        self._closed = False
        self._cache_dir = cache_dir
        self._pool: ThreadPool | None = None
        self._native: NativeTeam | None = None
        self._may_open = native
        self._yields = yields
        self._opening = threading.Lock()
        self._python = PythonTeam(self.threads - 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def native(self) -> bool:
        """Whether there are threads in C: never before `prepare`, or a product that opens them."""
        return self._native is not None

    def prepare(self) -> bool:
        """Have the threads in C, so that no product waits for them; False where there are none."""
        with self._opening:
            if self._may_open:
                self._may_open = False
                self._open_native()
        return self._native is not None

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
        final: Callable[[Sequence[range]], None] | None = None,
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
                are no more. Not asked again when it has given all. What it raises ends the product.
            likely_rows: How many rows `take` is likely to give in all; blocks are cut as for so
                many (`wavetrim.cpu.blocks.cut_strips`). None where that is not known.
            alpha: Factor of the product.
            beta: Factor of C.
            threads: Threads of the pool that take part; None for all.
            progress: Called in the calling thread with the rows newly finished.
            cancelled: Polled in the calling thread; True ends the product.
            final: Called in the calling thread with all rows of C so far that will not be written
                any more; others may be final, too. Only the threads in C tell of them.

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
        product = Product(
            a, b, c, alpha, beta, take, likely_rows, min(threads or self.threads, self.threads)
        )
        shape = c.shape[0], c.shape[1], a.shape[1]
        if self._may_open and c.dtype in NATIVE_DTYPES and can_share(*shape):
            self.prepare()
        native = self._native
        fields = native.describe(product) if native is not None else None
        with self._hold:
            if native is not None and fields is not None:
                native.multiply(product, fields, progress, cancelled, final)
            else:
                self._python.multiply(product, progress, cancelled)
        return time.perf_counter() - started

    @cached_property
    def block_sums(self) -> BlockSums:
        """What reads rows for the check of a product, with the threads in C if there are some."""
        self.prepare()
        return BlockSums(self._pool, self._cache_dir)

    def close(self) -> None:
        """End the threads once their blocks are done; calling it again does nothing."""
        self._closed = True
        with self._opening:
            self._may_open = False
        if self._pool is not None:
            self._pool.close()
        self._python.close()

    def _open_native(self) -> None:
        library = load_cpu_library(self._cache_dir)
        if library is None:
            return
        self._pool = ThreadPool(library, self.threads - 1, settles=True, yields=self._yields)
        blas = find_blas()
        if blas is not None:
            self._native = NativeTeam(self._pool, blas)
