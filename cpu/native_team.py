"""Products by C threads, which call BLAS without the interpreter's lock."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from wavetrim.cpu.blas import Blas
from wavetrim.cpu.errors import CpuError
from wavetrim.cpu.library import BlasAddresses, ProductFields
from wavetrim.cpu.native_call import NativeCall, take_for
from wavetrim.cpu.operands import find_blas_strides
from wavetrim.cpu.products import Matrix, Product
from wavetrim.native.pool import ThreadPool

NATIVE_DTYPES: Final = (np.dtype(np.float32), np.dtype(np.float64))
"""Element types that the C threads multiply."""

_KINDS: Final = (np.ndarray, np.memmap)
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

    def describe(self, product: Product) -> ProductFields | None:
        """The product's fields for C; None for a product that Python threads must compute.

        C computes what BLAS accepts, except K = 1. In a forked process the pool has no threads.
        """
        a, b, c = product.a, product.b, product.c
        if c.dtype not in NATIVE_DTYPES or not product.alpha or not c.size or a.shape[1] <= 1:
            return None
        fields = ProductFields(
            n=b.shape[1], k=b.shape[0], item=c.itemsize, alpha=product.alpha, beta=product.beta
        )
        for name, matrix in (("a", a), ("b", b), ("c", c)):
            strides = self._find_strides(matrix)
            if strides is None:
                return None
            setattr(fields, name, matrix.ctypes.data)
            setattr(fields, f"{name}_row", strides[0])
            setattr(fields, f"{name}_column", strides[1])
        return fields if self._pool.has_threads else None

    def multiply(
        self,
        product: Product,
        fields: ProductFields,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None = None,
    ) -> None:
        """Compute a product from the fields that `describe` returned.

        Raises:
            CpuError: The pool is closed.
            MemoryError: No memory for the call.
            ProductCancelled: `cancelled` returned True.
        """
        call = NativeCall(product, self._pool.library)
        with self._pool.hold() as pool:
            if pool is None:
                raise CpuError("the pool of CPU threads is closed")
            address = self._pool.library.begin_call(
                pool, ctypes.byref(self._blas), ctypes.byref(fields), product.threads - 1,
                take_for, call.key,
            )  # fmt: skip
            if address is None:
                raise MemoryError("no memory for a call of the CPU's threads")
            call.follow(address, progress, cancelled, final)

    def _find_strides(self, matrix: Matrix) -> tuple[int, int] | None:
        """Strides in bytes for BLAS; None for other layouts, and for subclasses of ndarray."""
        if type(matrix) not in _KINDS:
            return None
        strides = find_blas_strides(matrix)
        if strides is None or max(*matrix.shape, *strides) > self._largest:
            return None
        return strides
