"""Copies of matrices in host memory, shared by threads in C (native/copies.c).

Threads of Python's would pass the interpreter's lock around for every few megabytes, among
themselves and with the threads of the CPU path.
"""

from pathlib import Path
from typing import Final

from wavetrim.kernels.transfer.host_library import load_host_library
from wavetrim.kernels.transfer.pinned import Matrix
from wavetrim.native.pool import ThreadPool

NATIVE_ITEM_BYTES: Final = (1, 2, 4, 8)
"""The elements that the C library copies."""


def open_copiers(threads: int, *, cache_dir: Path | None) -> ThreadPool | None:
    """A pool of threads that copy; None, after a warning, where the C library cannot be had.

    Args:
        threads: Threads beside the callers'.
        cache_dir: Folder of compiled code; None for the library beside its source, or none.
    """
    library = load_host_library(cache_dir)
    return None if library is None else ThreadPool(library, threads)


def copy_matrix(pool: ThreadPool, target: Matrix, source: Matrix) -> None:
    """Copy a matrix between any two layouts, and return when all is there.

    Args:
        pool: Who helps; one of `open_copiers`.
        target: Of any strides; its elements have 1, 2, 4 or 8 bytes.
        source: Of the same shape and element type, sharing no memory with the target.
    """
    assert target.shape == source.shape, "a copy has the shape of what is copied"
    assert target.dtype == source.dtype, "a copy has the elements of what is copied"
    assert target.itemsize in NATIVE_ITEM_BYTES, "the library copies elements of 1 to 8 bytes"
    with pool.hold() as address:
        assert address is not None, "the pool is open"
        pool.library.copy_matrix(
            *(address, pool.threads, target.ctypes.data, *count_strides(target)),
            *(source.ctypes.data, *count_strides(source)),
            *(*target.shape, target.itemsize),
        )


def count_strides(matrix: Matrix) -> tuple[int, int]:
    """Bytes from one row to the next, and from one column; those of a single one do not matter."""
    down, across = matrix.strides
    rows, columns = matrix.shape
    if columns == 1:
        across = matrix.itemsize
    if rows == 1:
        down = columns * across
    return down, across
