"""Products by C threads, which call BLAS without the interpreter's lock."""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from wavetrim.cpu.blas import Blas
from wavetrim.cpu.errors import CpuError
from wavetrim.cpu.library import PRODUCT, BlasAddresses
from wavetrim.cpu.native_call import NATIVE_DTYPES, Cut, NativeCall, add_sums, take_for
from wavetrim.cpu.operands import lay_out
from wavetrim.cpu.products import Matrix, Product
from wavetrim.native.pool import ThreadPool

Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides of a matrix."""

_KINDS: Final = (np.ndarray, np.memmap)
_CLOSED: Final = "the pool of CPU threads is closed"
_NO_MEMORY: Final = "no memory for a call of the CPU's threads"
_LARGEST_NARROW: Final = 2**31 - 1


class NativeTeam:
    """Multiplies by C threads. Thread-safe.

    Args:
        pool: The threads; its library is that of cpu/native/.
        blas: The BLAS that they call.
    """

    def __init__(self, pool: ThreadPool, blas: Blas) -> None:
        sgemm, dgemm, sgemv, dgemv = blas.addresses
        self._pool = pool
        self._blas = BlasAddresses((sgemm, dgemm), (sgemv, dgemv), blas.integer_bytes)
        self._largest = 2**63 - 1 if blas.integer_bytes == 8 else _LARGEST_NARROW

    def describe(self, a: Matrix, b: Matrix, c: Matrix, alpha: float, beta: float) -> bytes | None:
        """The product for C (`PRODUCT`); None for one that Python threads must compute.

        C computes what BLAS accepts, except K = 1. In a forked process the pool has no threads.
        """
        item, (k, n) = c.itemsize, b.shape
        if c.dtype not in NATIVE_DTYPES or not alpha or not c.size or k <= 1:
            return None
        if type(a) not in _KINDS or type(b) not in _KINDS or type(c) not in _KINDS:
            return None
        layouts = (a.shape, a.strides), (b.shape, b.strides), (c.shape, c.strides)
        strides = _lay_out_all(layouts, item, self._largest)
        at = a.ctypes.data, b.ctypes.data, c.ctypes.data
        if strides is None or any(address % item for address in at) or not self._pool.has_threads:
            return None
        return PRODUCT.pack(*at, *strides, n, k, item, alpha, beta)

    def multiply(
        self,
        product: Product,
        described: bytes,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None = None,
    ) -> None:
        """Compute a product that `describe` has described.

        Raises:
            CpuError: The pool is closed.
            MemoryError: No memory for the call.
            ProductCancelled: `cancelled` returned True.
        """
        call = NativeCall(product, self._pool.library)
        with self._pool.hold() as pool:
            if pool is None:
                raise CpuError(_CLOSED)
            address = self._pool.library.begin_call(
                pool, ctypes.byref(self._blas), described, product.threads - 1, take_for, call.key
            )
            if address is None:
                raise MemoryError(_NO_MEMORY)
            call.follow(address, progress, cancelled, final)

    def multiply_at_once(
        self, a: Matrix, b: Matrix, c: Matrix, cut: Cut, helpers: int, *, alpha: float, beta: float
    ) -> bool:
        """Compute a whole product in one call of the library; False if Python threads must do it.

        Args:
            a: A[M,K].
            b: B[K,N].
            c: C[M,N].
            cut: The product's blocks.
            helpers: Most threads that help the caller.
            alpha: Factor of the product.
            beta: Factor of C.

        Raises:
            CpuError: The pool is closed.
            MemoryError: No memory for the call.
        """
        described = self.describe(a, b, c, alpha, beta)
        if described is None:
            return False
        sums = np.empty((cut.depths, *c.shape), c.dtype) if cut.depths > 1 else None
        with self._pool.hold() as pool:
            if pool is None:
                raise CpuError(_CLOSED)
            done = self._pool.library.multiply_at_once(
                pool, ctypes.byref(self._blas), described, helpers,
                None if sums is None else sums.ctypes.data, cut.blocks, cut.blocks_count,
            )  # fmt: skip
        if not done:
            raise MemoryError(_NO_MEMORY)
        if sums is not None:
            add_sums(sums, c, alpha=alpha, beta=beta)
        return True


@lru_cache(maxsize=1024)
def _lay_out_all(layouts: tuple[Layout, ...], item: int, largest: int) -> tuple[int, ...] | None:
    """Strides in bytes of all matrices for BLAS; None if it does not accept one of them."""
    found: list[int] = []
    for shape, strides in layouts:
        usable = lay_out(shape, strides, item)
        if usable is None or max(*shape, *usable) > largest:
            return None
        found += usable
    return tuple(found)
