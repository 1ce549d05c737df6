"""Page-locked memory: the GPU copies it itself, at the link's rate, without a CPU core."""

import contextlib
import ctypes
import weakref
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.native.element_types import find_dtype
from wavetrim.native.plain import Matrix, find_address

_PORTABLE: Final = 1  # cudaHostAllocPortable and cudaHostRegisterPortable
_HOST: Final = 1  # cudaMemoryTypeHost

_locked: Final[list[tuple[int, int]]] = []
"""Begin and end of each region locked here, sorted. An entry is removed before its lock.

The list needs no lock: each change is one C call, atomic under the interpreter's lock even in
finalizers. A reader must check the entry that it finds.
"""


def pin_matrix(rows: int, columns: int, dtype: DTypeLike) -> Matrix:
    """A new row-major matrix in page-locked memory, as `pin_array` makes it."""
    return pin_array((rows, columns), dtype)


def pin_array(shape: tuple[int, ...], dtype: DTypeLike) -> Matrix:
    """A new, uninitialized row-major array in page-locked memory, freed with its last view.

    Raises:
        DeviceFailure: There is no GPU, or the memory cannot be locked.
    """
    from cupy.cuda import runtime

    items = find_dtype(dtype)
    array_bytes = prod(shape) * items.itemsize
    size_bytes = max(1, array_bytes)
    try:
        pointer: int = runtime.hostAlloc(size_bytes, _PORTABLE)
    except runtime.CUDARuntimeError as error:
        raise DeviceFailure(f"{size_bytes} bytes of page-locked memory: {error}") from error
    memory = (ctypes.c_uint8 * size_bytes).from_address(pointer)
    end = pointer + size_bytes
    insort(_locked, (pointer, end))
    weakref.finalize(memory, _free, pointer, end).atexit = False  # the driver frees it at exit
    used = np.ctypeslib.as_array(memory)[:array_bytes]
    array: Matrix = used.view(items).reshape(shape)
    return array


@contextlib.contextmanager
def lock_matrix(matrix: Matrix) -> Iterator[Matrix]:
    """Page-lock an existing matrix while the context lasts.

    This pays for matrices that are used several times: locking takes 23 ms a GiB and unlocking 13
    (H200's host). Memory mapped from a file on disk cannot be locked.

    Raises:
        OperandError: The matrix is not contiguous.
        DeviceFailure: CUDA refuses the memory.
    """
    if not (matrix.flags.c_contiguous or matrix.flags.f_contiguous):
        raise OperandError(f"strides are {matrix.strides}; only contiguous memory can be locked")
    address, size_bytes = find_address(matrix), max(1, matrix.nbytes)
    lock_region(address, size_bytes)
    try:
        yield matrix
    finally:
        unlock_region(address, size_bytes)


def lock_region(address: int, size_bytes: int, *, device_index: int | None = None) -> None:
    """Page-lock existing memory for all GPUs, until `unlock_region`.

    Matrices within the region count as page-locked. A matrix across two regions does not: no copy
    may span two registrations.

    Args:
        address: Begin of the region.
        size_bytes: Size of the region, below 512 GiB.
        device_index: The GPU whose context registers it; None for the thread's current one.

    Raises:
        DeviceFailure: CUDA refuses the memory.
    """
    from cupy.cuda import Device, runtime

    try:
        with contextlib.nullcontext() if device_index is None else Device(device_index):
            runtime.hostRegister(address, size_bytes, _PORTABLE)
    except runtime.CUDARuntimeError as error:
        raise DeviceFailure(f"{size_bytes} bytes cannot be page-locked: {error}") from error
    insort(_locked, (address, address + size_bytes))


def unlock_region(address: int, size_bytes: int, *, device_index: int | None = None) -> None:
    """Unlock a region, with the arguments of `lock_region`. No copy may use it.

    Raises:
        DeviceFailure: CUDA refuses, for example because its context is poisoned.
    """
    from cupy.cuda import Device, runtime

    _locked.remove((address, address + size_bytes))
    try:
        with contextlib.nullcontext() if device_index is None else Device(device_index):
            runtime.hostUnregister(address)
    except runtime.CUDARuntimeError as error:
        raise DeviceFailure(f"{size_bytes} bytes cannot be unlocked: {error}") from error


def is_pinned(matrix: Matrix) -> bool:
    """Whether copies of this matrix need no staging: page-locked rows of adjacent elements."""
    return is_locked(matrix, find_address(matrix))


def has_adjacent_rows(matrix: Matrix) -> bool:
    """Whether CUDA can copy its layout: rows of adjacent elements at increasing addresses."""
    (rows, columns), (row_stride, column_stride) = matrix.shape, matrix.strides
    if columns > 1 and column_stride != matrix.itemsize:
        return False
    return bool(rows <= 1 or row_stride >= columns * matrix.itemsize)


def is_locked(matrix: Matrix, address: int) -> bool:
    """Like `is_pinned`, for a matrix whose address is known."""
    if matrix.flags.c_contiguous:
        last = address + matrix.nbytes - 1
    elif has_adjacent_rows(matrix):
        rows, columns = matrix.shape
        last = address + (rows - 1) * matrix.strides[0] + columns * matrix.itemsize - 1
    else:
        return False
    if address < (end := _find_region_end(address)):
        return last < end
    ask = _find_runtime().pointerGetAttributes  # it takes some microseconds
    return bool(ask(address).type == _HOST and ask(last).type == _HOST)


def were_locked(matrices: Iterable[Matrix], addresses: Iterable[int]) -> bool:
    """Whether all of the memory of row-major matrices was locked here.

    Faster than `is_pinned`: it does not ask CUDA.
    """
    return all(
        address + matrix.nbytes <= _find_region_end(address)
        for matrix, address in zip(matrices, addresses, strict=True)
    )


def _find_region_end(address: int) -> int:
    """End of the last region locked here that begins at this address or before it; 0 for none."""
    after = bisect_left(_locked, (address + 1, 0))
    before = _locked[after - 1 : after]  # empty if another thread unlocked it meanwhile
    return before[0][1] if before else 0


def _free(pointer: int, end: int) -> None:
    _locked.remove((pointer, end))
    _find_runtime().freeHost(pointer)


@cache
def _find_runtime() -> Any:
    """CuPy's CUDA runtime, cached: an import statement takes as long as a CUDA call."""
    from cupy.cuda import runtime

    return runtime
