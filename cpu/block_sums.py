"""Weighted row sums over blocks of columns, and column maxima, for the check of products.

The C library reads a matrix once, with several threads and without a copy. NumPy takes over if
there is no C library, or elements of a row are not adjacent.
"""

import ctypes
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np

from wavetrim.cpu.library import CPU_LIBRARY, RowsFields
from wavetrim.cpu.products import Matrix
from wavetrim.native.element_types import BFLOAT16, HALVES, find_accumulator
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool

_PART_BYTES: Final = 4 * 2**20
"""Most memory for rows that NumPy converts at a time. Chosen, to bound memory."""


class BlockSums:
    """Reads matrices of halves, float32 or float64. Thread-safe.

    Args:
        pool: Threads that help; None for the caller alone.
        cache_dir: Folder of compiled code; None to use only a library compiled ahead of time.
    """

    def __init__(self, pool: ThreadPool | None = None, cache_dir: Path | None = None) -> None:
        self._pool = pool
        self._helpers = 0 if pool is None else pool.threads
        self._library = load_library(CPU_LIBRARY, cache_dir)
        self._widens = self._library is not None and bool(self._library.has_halves())

    def copy(self, matrix: Matrix, out: Matrix) -> None:
        """Copy a matrix; halves may be copied into float32."""
        if matrix.dtype in HALVES and self._reads(matrix):
            self._call("widen_rows", matrix, out)
        else:
            out[...] = matrix

    def sum(
        self, matrix: Matrix, weights: Matrix, width: int, *, magnitudes: bool = False
    ) -> Matrix:
        """Weighted sums of each row over blocks of columns.

        Args:
            matrix: M x N floats.
            weights: N weights of the matrix's type, float32 for halves; contiguous.
            width: Columns of a block, at most 1024; the last block may have fewer.
            magnitudes: Whether to sum the magnitudes of the elements.

        Returns:
            M x ⌈N / width⌉ sums of the weights' type.
        """
        rows, columns = matrix.shape
        sums = np.empty((rows, -(-columns // width)), weights.dtype)
        if self._reads(matrix):
            self._call(
                "sum_blocks", matrix, sums,
                weights=weights.ctypes.data, width=width, magnitudes=magnitudes,
            )  # fmt: skip
            return sums
        for part in _cut(matrix):
            wide = matrix[part].astype(weights.dtype, copy=False)
            wide = np.abs(wide) if magnitudes else wide
            for index, start in enumerate(range(0, columns, width)):
                block = slice(start, start + width)
                sums[part, index] = np.ascontiguousarray(wide[:, block]) @ weights[block]
        return sums

    def find_maxima(self, matrix: Matrix) -> Matrix:
        """Largest magnitude of each column, ignoring NaN; as float32 for halves."""
        work = find_accumulator(matrix.dtype)
        if self._reads(matrix):
            maxima = np.zeros((self._helpers + 1, matrix.shape[1]), work)
            self._call("raise_maxima", matrix, maxima)
        else:
            found = [np.fmax.reduce(np.abs(matrix[part]), axis=0) for part in _cut(matrix)]
            maxima = np.nan_to_num(np.array(found, work), nan=0.0, posinf=np.inf)
        largest: Matrix = maxima.max(axis=0)
        return largest

    def _reads(self, matrix: Matrix) -> bool:
        """Whether the C library can read a matrix: the elements of each row are adjacent."""
        if self._library is None or (matrix.dtype == np.float16 and not self._widens):
            return False
        return matrix.strides[1] == matrix.itemsize and bool(matrix.flags.aligned)

    def _call(self, function: str, matrix: Matrix, out: Matrix, **fields: Any) -> None:
        rows, columns = matrix.shape
        with nullcontext() if self._pool is None else self._pool.hold() as pool:
            helps = self._pool is not None and self._pool.has_threads
            described = RowsFields(
                matrix=matrix.ctypes.data, row_bytes=matrix.strides[0], rows=rows, columns=columns,
                item=matrix.itemsize, is_bfloat=matrix.dtype == BFLOAT16, pool=pool,
                helpers=self._helpers if helps else 0, out=out.ctypes.data, **fields,
            )  # fmt: skip
            getattr(self._library, function)(ctypes.byref(described))


def _cut(matrix: Matrix) -> Iterator[slice]:
    """Ranges of rows for NumPy to read at a time."""
    rows, columns = matrix.shape
    step = max(1, _PART_BYTES // (8 * columns))
    for first in range(0, rows, step):
        yield slice(first, min(rows, first + step))
