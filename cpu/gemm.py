"""C ← αA·B + βC on the CPU, by one pool of threads."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, Self, TypeVar

from wavetrim.cpu.errors import CpuError, OperandError
from wavetrim.cpu.native_team import NativeTeam
from wavetrim.cpu.operands import check_operands
from wavetrim.cpu.prepared import describe_layout, prepare
from wavetrim.cpu.products import NO_REPORTS, Reports, multiply_alone
from wavetrim.cpu.python_team import PythonTeam
from wavetrim.cpu.threads import blas_limit, count_default_threads, limit_blas_threads
from wavetrim.native.plain import Matrix

_Part = TypeVar("_Part")

NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class CpuPool:
    """Multiplies matrices in host memory with a fixed number of threads, the caller included.

    Several threads may call `multiply` at once; their blocks share the pool. Usable as a context
    manager. Limits BLAS to one thread until the process ends, unless `lends_blas` is set.

    C threads compute float32, float64, bfloat16 and the complex types, if there are a C library and
    an OpenBLAS, and BLAS accepts the layout of the matrices. As many Python threads compute all
    other products. The library is compiled for the first product that is large enough for several
    threads, or by `prepare`.

    Args:
        threads: Number of threads; None for `count_default_threads()`.
        cache_dir: Folder of compiled code; None to use only a library compiled ahead of time.
        lends_blas: Whether BLAS gets its threads back between products, for other code in the
            process.

    Attributes:
        threads: Number of threads, the caller included.
        cache_dir: Folder of compiled code, as given.

    Raises:
        OperandError: `threads` is below 1.
    """

    def __init__(
        self,
        threads: int | None = None,
        *,
        cache_dir: Path | None = None,
        lends_blas: bool = False,
    ) -> None:
        if threads is not None and threads < 1:
            raise OperandError("threads", threads, "at least 1")
        self._blas_limit = blas_limit if lends_blas else NOTHING
        if not lends_blas:
            limit_blas_threads()
        self.threads = count_default_threads() if threads is None else threads
        self._closed = False
        self.cache_dir = cache_dir
        self._native: NativeTeam | None = None
        self._may_open = True
        self._opening = threading.Lock()
        self._python = PythonTeam(self.threads - 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> bool:
        """Compile the library and start the C threads; False where that is impossible."""
        with self._opening:
            if self._may_open:
                self._may_open = False
                self._native = NativeTeam.open(self.threads - 1, self.cache_dir)
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
        final: Callable[[Sequence[range]], None] | None = None,
    ) -> float:
        """C ← αA·B + βC in place. As in BLAS, β = 0 never reads C, and α = 0 neither A nor B.

        Args:
            a: A[M,K], any strides.
            b: B[K,N], any strides.
            c: C[M,N], any strides; writable, sharing no memory with A and B.
            alpha: Factor of the product; a whole number for integers.
            beta: Factor of C; a whole number for integers.
            threads: Threads that compute, at least 1, the caller included; None for all. The others
                sleep.
            progress: Called in the calling thread with the rows newly finished (elements of C
                divided by N, so fractions occur); the calls add up to M.
            cancelled: Polled in the calling thread; True ends the product.
            final: Called in the calling thread with all rows that will not be written again. Only
                for products of C threads.

        Returns:
            Seconds of the product.

        Raises:
            OperandError: Shapes or element types do not fit, C shares memory with A or B, or a
                factor of an integer product is no whole number.
            ProductCancelled: `cancelled` returned True; C is incomplete.
            CpuError: The pool is closed.
        """
        started = time.perf_counter()
        if self._closed:
            raise CpuError("the pool of CPU threads is closed")
        taking = min(threads or self.threads, self.threads)
        prepared = prepare(*map(describe_layout, (a, b, c)), taking)
        reports = Reports(progress, cancelled, final)
        done = False
        if prepared is not None and not prepared.is_small:
            if self._may_open:
                self.prepare()
            if self._native is not None:
                with self._blas_limit:
                    done = self._native.multiply(
                        a, b, c, prepared, taking, alpha=alpha, beta=beta, reports=reports
                    )
        if not done:
            check_operands(a, b, c, alpha=alpha, beta=beta)
            if prepared is not None and prepared.is_small and reports == NO_REPORTS:
                self.multiply_alone(a, b, c, alpha, beta)
            else:
                with self._blas_limit:
                    self._python.multiply(a, b, c, taking, alpha=alpha, beta=beta, reports=reports)
        return time.perf_counter() - started

    def multiply_alone(self, a: Matrix, b: Matrix, c: Matrix, alpha: float, beta: float) -> None:
        """C ← αA·B + βC in the calling thread, for a small product (`blocks.is_small`).

        As `multiply`, but if α = 1 and β = 0, only NumPy checks the operands. Then C may share
        memory with A or B.

        Raises:
            OperandError: NumPy refuses the operands.
        """
        if alpha != 1 or beta != 0:
            check_operands(a, b, c, alpha=alpha, beta=beta)
        try:
            with self._blas_limit:
                multiply_alone(a, b, c, alpha=alpha, beta=beta)
        except ValueError:
            check_operands(a, b, c, alpha=alpha, beta=beta)
            raise

    def call_each(self, function: Callable[[_Part], object], parts: Sequence[_Part]) -> None:
        """Call a function of each part, in Python threads and the calling one.

        The function should release the interpreter's lock, as NumPy's do.
        """
        self._python.call_each(function, parts)

    def close(self) -> None:
        """End the threads once their blocks are done. Idempotent."""
        self._closed = True
        with self._opening:
            self._may_open = False
        if self._native is not None:
            self._native.close()
        self._python.close()
