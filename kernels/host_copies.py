"""Copies of matrices in host memory by a team of threads.

The team is native (kernels/native/copies.c): threads of Python's would pass the interpreter's lock
around for every few megabytes, among themselves and with the threads of the CPU path. Where there
is no C compiler they do it all the same.
"""

import ctypes
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from wavetrim.kernels.host_library import HOST_LIBRARY
from wavetrim.kernels.memory import Matrix, copy_matrix
from wavetrim.native.call_threads import CallThreads
from wavetrim.native.library import load_library

_LEAST_SHARE_BYTES: Final = 1 << 20
NATIVE_ITEM_BYTES: Final = (1, 2, 4, 8)
"""The elements that the C library copies."""

_COPY_ARGUMENTS: Final = (
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
    *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),
)


class CopyTeam:
    """Threads that copy matrices together with whoever asks for it. Safe to use from any thread.

    Like CUDA's context a team does not outlive a fork: a child process has none of its threads.

    Args:
        threads: Threads beside the caller's.
        cache_dir: Folder of compiled code.
        native: Whether the C library is to be used where there is one.
    """

    def __init__(self, threads: int, *, cache_dir: Path, native: bool = True) -> None:
        self._threads = threads
        self._library = load_library(HOST_LIBRARY, cache_dir) if native else None
        self._closing = threading.Lock()
        self._team: int | None = None
        self._pool: CallThreads | None = None
        if self._library is not None:
            self._library.open_team.restype = ctypes.c_void_p
            self._library.wake_team.argtypes = (ctypes.c_void_p, ctypes.c_int)
            self._library.wake_team.restype = None
            self._library.limit_team.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
            self._library.limit_team.restype = None
            self._library.copy_matrix.argtypes = _COPY_ARGUMENTS
            self._library.copy_matrix.restype = None
            self._team = self._library.open_team(ctypes.c_int(threads))
        if self._team is None:
            self._library = None
            self._pool = CallThreads(max(1, threads), "copy")

    @property
    def threads(self) -> int:
        """Threads beside the caller's."""
        return self._threads

    @property
    def native(self) -> tuple[ctypes.CDLL, int] | None:
        """The C library and its team's address; None where Python's threads do the work."""
        if self._library is None or self._team is None:
            return None
        return self._library, self._team

    def copy(self, target: Matrix, source: Matrix) -> None:
        """Copy a matrix between any two layouts, and return when all is there.

        Args:
            target: Of any strides.
            source: Of the same shape and element type, sharing no memory with the target.
        """
        assert target.shape == source.shape, "a copy has the shape of what is copied"
        assert target.dtype == source.dtype, "a copy has the elements of what is copied"
        if self._library is None or target.itemsize not in NATIVE_ITEM_BYTES:
            self._copy_shares(target, source)
            return
        rows, columns = target.shape
        self._library.copy_matrix(
            *(self._team, self._threads, target.ctypes.data, *count_strides(target)),
            *(source.ctypes.data, *count_strides(source)),
            *(rows, columns, target.itemsize),
        )

    def wake(self, threads: int) -> None:
        """Have so many of the threads awake for a copy that follows soon."""
        if self._library is not None:
            self._library.wake_team(self._team, threads)

    def limit(self, threads: int, *, shares_cores: bool = False) -> None:
        """Have only so many of the threads awake for copies from now on.

        Args:
            threads: So many.
            shares_cores: Whether others compute on the same cores.
        """
        if self._library is not None:
            self._library.limit_team(self._team, threads, int(shares_cores))

    def close(self) -> None:
        """End the threads; no copy may be under way, and none may follow."""
        with self._closing:
            if self._library is not None and self._team is not None:
                self._library.close_team(ctypes.c_void_p(self._team))
                self._library = self._team = None
            if self._pool is not None:
                self._pool.close()

    def _copy_shares(self, target: Matrix, source: Matrix) -> None:
        rows = target.shape[0]
        count = min(rows, self._threads + 1, target.nbytes // _LEAST_SHARE_BYTES)
        if count <= 1 or self._pool is None:
            copy_matrix(target, source)
            return
        edges = [rows * share // count for share in range(count + 1)]

        def make_share(top: int, bottom: int) -> Callable[[], None]:
            return lambda: copy_matrix(target[top:bottom], source[top:bottom])

        first, *others = (make_share(*edge) for edge in pairwise(edges))
        pending = [self._pool.submit(share) for share in others]
        try:
            first()
        finally:
            for share in pending:
                share.result()


def count_strides(matrix: Matrix) -> tuple[int, int]:
    """Bytes from one row to the next, and from one column; those of a single one do not matter."""
    down, across = matrix.strides
    rows, columns = matrix.shape
    if columns == 1:
        across = matrix.itemsize
    if rows == 1:
        down = columns * across
    return down, across
