"""Page-locked host memory in slabs that are used again and again, and copies into and out of it."""

import ctypes
import threading
from queue import SimpleQueue
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

_PORTABLE: Final = 1  # cudaHostAllocPortable
_STRIP_BYTES: Final = 128


class PinnedSlab:
    """One piece of page-locked memory.

    Attributes:
        pointer: Its address.
        size_bytes: Its length.
        busy_until: The CUDA event after which it may be written again, or None.
    """

    def __init__(self, size_bytes: int) -> None:
        from cupy.cuda import runtime

        self.pointer: int = runtime.hostAlloc(size_bytes, _PORTABLE)
        self.size_bytes = size_bytes
        self.busy_until: Any = None
        self._bytes = np.ctypeslib.as_array(
            (ctypes.c_uint8 * size_bytes).from_address(self.pointer)
        )

    def view(self, shape: tuple[int, ...], pitch: int, dtype: np.dtype[Any]) -> Matrix:
        """The first bytes as a matrix of (rows, columns), its rows `pitch` elements apart."""
        rows, columns = shape
        items = self._bytes[: rows * pitch * dtype.itemsize].view(dtype)
        matrix: Matrix = items.reshape(rows, pitch)[:, :columns]
        return matrix

    def free(self) -> None:
        """Give the memory back; views of it must not be used any more."""
        from cupy.cuda import runtime

        if self.pointer:
            runtime.freeHost(self.pointer)
        self.pointer = 0


class PinnedSlabs:
    """A fixed number of slabs, allocated when first needed, freed when closed.

    Own allocations, because CuPy's pool of pinned memory rounds up to powers of two and never
    shrinks. Safe to use from several threads.

    Args:
        count: Slabs at most.
        size_bytes: Bytes of each.
    """

    def __init__(self, count: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._lock = threading.Lock()
        self._slabs: list[PinnedSlab] = []
        # None stands for a slab that has not been allocated. First in, first out: the slab that
        # was given back first is the likeliest to be free of its transfer.
        self._free: SimpleQueue[PinnedSlab | None] = SimpleQueue()
        for _ in range(count):
            self._free.put(None)

    def acquire(self) -> PinnedSlab:
        """Take a slab, waiting for one, and for the device to have done with it."""
        slab = self._free.get()
        try:
            if slab is None:
                slab = PinnedSlab(self.size_bytes)
                with self._lock:
                    self._slabs.append(slab)
            elif slab.busy_until is not None:
                slab.busy_until.synchronize()
        except BaseException:
            self._free.put(slab)
            raise
        slab.busy_until = None
        return slab

    def release(self, slab: PinnedSlab, busy_until: Any = None) -> None:
        """Give a slab back, of use again when the CUDA event `busy_until` has passed."""
        slab.busy_until = busy_until
        self._free.put(slab)

    def close(self) -> None:
        """Free all slabs; none may be in use."""
        with self._lock:
            while self._slabs:
                self._slabs.pop().free()


def copy_matrix(target: Matrix, source: Matrix) -> None:
    """Copy a matrix between any two layouts; NumPy releases the interpreter's lock meanwhile.

    Where one side is row-major and the other column-major, NumPy walks across the pages of one of
    them at every element. Strips as wide as a cache line make that three times as fast.
    """
    if _is_upright(target) == _is_upright(source):
        np.copyto(target, source)
        return
    if not _is_upright(target):
        target, source = target.T, source.T
    width = max(1, _STRIP_BYTES // target.itemsize)
    for left in range(0, target.shape[1], width):
        target[:, left : left + width] = source[:, left : left + width]


def _is_upright(matrix: Matrix) -> bool:
    """Whether neighbours in a row are closer than neighbours in a column; a vector always is."""
    return 1 in matrix.shape or abs(matrix.strides[1]) <= abs(matrix.strides[0])
