"""The pool's threads in C, which call BLAS themselves and never take the interpreter's lock."""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np

from wavetrim.cpu.blas import Blas, find_blas
from wavetrim.cpu.errors import CpuError
from wavetrim.cpu.layout import find_blas_strides
from wavetrim.cpu.native_call import NativeCall, take_for
from wavetrim.cpu.pool_library import BlasAddresses, ProductFields, load_pool_library
from wavetrim.cpu.product import Product
from wavetrim.cpu.products import Matrix

NATIVE_DTYPES: Final = (np.dtype(np.float32), np.dtype(np.float64))
"""The element types that the threads in C multiply."""

_KINDS: Final = (np.ndarray, np.memmap)
_LARGEST_NARROW: Final = 2**31 - 1


class NativeTeam:
    """A team of C threads. Safe to use from several threads.

    Args:
        threads: Threads beside the callers'.
        library: The C library.
        blas: What the threads call.
        yields: Whether the threads leave the cores to all others that want them.

    Raises:
        MemoryError: There is none for the team.
    """

    def __init__(
        self, threads: int, library: ctypes.CDLL, blas: Blas, *, yields: bool = False
    ) -> None:
        sgemm, dgemm, sgemv, dgemv = blas.addresses
        self._library = library
        self._blas = BlasAddresses((sgemm, dgemm), (sgemv, dgemv), blas.integer_bytes)
        self._largest = 2**63 - 1 if blas.integer_bytes == 8 else _LARGEST_NARROW
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._address: int | None = library.open_team(threads, yields)
        if self._address is None:
            raise MemoryError(f"no memory for a team of {threads} threads")

    @classmethod
    def open(cls, threads: int, cache_dir: Path | None, *, yields: bool = False) -> Self | None:
        """A team; None, after a warning, where the library or a BLAS for it cannot be had.

        Args:
            threads: Threads beside the callers'.
            cache_dir: Folder of compiled code; None for the library beside its source, or none.
            yields: Whether the threads leave the cores to all others that want them.
        """
        library = load_pool_library(cache_dir)
        blas = find_blas() if library is not None else None
        if library is None or blas is None:
            return None
        return cls(threads, library, blas, yields=yields)

    def describe(self, product: Product) -> ProductFields | None:
        """A product as the library takes it; None for one that it does not take.

        It takes what BLAS does, where that is fastest. A forked process has none of the threads.
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
        return fields if os.getpid() == self._process else None

    def multiply(
        self,
        product: Product,
        fields: ProductFields,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None = None,
    ) -> None:
        """Compute a product of which `describe` made these fields.

        Raises:
            CpuError: The team is closed.
            MemoryError: There is none for the call.
            ProductCancelled: `cancelled` returned True.
        """
        call = NativeCall(product, self._library)
        with self._lock:
            if self._address is None:
                raise CpuError("the pool of CPU threads is closed")
            address = self._library.begin_call(
                self._address, ctypes.byref(self._blas), ctypes.byref(fields),
                product.threads - 1, take_for, call.key,
            )  # fmt: skip
        if address is None:
            raise MemoryError("no memory for a call of the CPU's threads")
        call.follow(address, progress, cancelled, final)

    def close(self) -> None:
        """End the threads once their blocks are done; calling it again does nothing."""
        with self._lock:
            address, self._address = self._address, None
        if address is not None and os.getpid() == self._process:
            self._library.close_team(address)

    def _find_strides(self, matrix: Matrix) -> tuple[int, int] | None:
        """What is of another class may read its elements in a way of its own."""
        if type(matrix) not in _KINDS:
            return None
        strides = find_blas_strides(matrix)
        if strides is None or max(*matrix.shape, *strides) > self._largest:
            return None
        return strides
