"""Copies of matrices in host memory by several C threads (native/copies.c).

Python threads would contend for the interpreter's lock every few megabytes.
"""

from pathlib import Path
from typing import Final

from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.kernels.transfer.pinned import Matrix
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool
from wavetrim.native.tuned import COPIERS_AWAKE_SECONDS

NATIVE_ITEM_BYTES: Final = (1, 2, 4, 8, 16)
"""Sizes of elements that the C library copies."""


def open_copiers(threads: int, *, cache_dir: Path | None) -> ThreadPool | None:
    """Open a pool of copy threads; None, after a warning, if the C library cannot be loaded.

    Args:
        threads: Number of threads, not counting callers.
        cache_dir: Folder of compiled code; None to use only a library compiled ahead of time.
    """
    library = load_library(HOST_LIBRARY, cache_dir)
    if library is None:
        return None
    return ThreadPool(library, threads, awake_seconds=COPIERS_AWAKE_SECONDS)


def copy_matrix(pool: ThreadPool, target: Matrix, source: Matrix) -> None:
    """Copy a matrix between any two layouts, and wait for the end.

    Args:
        pool: Threads that help, from `open_copiers`.
        target: Matrix of any strides; its elements have 1, 2, 4, 8 or 16 bytes.
        source: Matrix of the same shape and type, sharing no memory with the target.
    """
    _check(target, source)
    with pool as address:
        assert address is not None, "the pool is open"
        pool.library.copy_matrix(
            *(address, pool.threads, target.ctypes.data, *count_strides(target)),
            *(source.ctypes.data, *count_strides(source)),
            *(*target.shape, target.itemsize),
        )


def stream_matrix(pool: ThreadPool, target: Matrix, source: Matrix) -> None:
    """Copy a matrix past the caches, because a device reads the target next, and caches slowly.

    Args:
        pool: Threads that help, from `open_copiers`.
        target: Matrix with rows of adjacent elements, of 1, 2, 4, 8 or 16 bytes.
        source: Matrix of the same shape and type, any strides, sharing no memory with the target.
    """
    _check(target, source)
    down, across = count_strides(target)
    assert across == target.itemsize, "elements of a row of the target are adjacent"
    with pool as address:
        assert address is not None, "the pool is open"
        pool.library.stream_matrix(
            *(address, pool.threads, target.ctypes.data, down),
            *(source.ctypes.data, *count_strides(source)),
            *(*target.shape, target.itemsize),
        )


def count_strides(matrix: Matrix) -> tuple[int, int]:
    """Row and column stride in bytes; for a single row or column, that of adjacent elements."""
    down, across = matrix.strides
    rows, columns = matrix.shape
    if columns == 1:
        across = matrix.itemsize
    if rows == 1:
        down = columns * across
    return down, across


def _check(target: Matrix, source: Matrix) -> None:
    assert target.shape == source.shape, "a copy has the shape of what is copied"
    assert target.dtype == source.dtype, "a copy has the elements of what is copied"
    assert target.itemsize in NATIVE_ITEM_BYTES, "the library copies elements of 1 to 16 bytes"
