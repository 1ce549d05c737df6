"""Matrices in page-locked memory, which the GPU reads and writes by itself.

Copies between such memory and the device need no staging: they run at the link's rate, and no core
works for them.
"""

import contextlib
import ctypes
import weakref
from bisect import bisect_left, insort
from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.events import find_runtime

Matrix = NDArray[Any]

_PORTABLE: Final = 1  # cudaHostAllocPortable and cudaHostRegisterPortable
_HOST: Final = 1  # cudaMemoryTypeHost

_locked: Final[list[tuple[int, int]]] = []
"""Where memory that was locked here begins and ends, sorted: entries go before the lock does.

Threads change it by single calls of C, which nothing interrupts; so do finalizers, wherever they
come in between. A reader checks what it finds: an entry that covers an address is proof.
"""


def pin_matrix(rows: int, columns: int, dtype: DTypeLike) -> Matrix:
    """A new row-major matrix in page-locked memory, as `pin_array` makes it."""
    return pin_array((rows, columns), dtype)


def pin_array(shape: tuple[int, ...], dtype: DTypeLike) -> Matrix:
    """A new row-major array in page-locked memory, which is freed with its last view.

    Its elements are what the memory held before.

    Raises:
        DeviceFailure: There is no GPU, or not that much memory to lock.
    """
    from cupy.cuda import runtime

    items = np.dtype(dtype)
    array_bytes = prod(shape) * items.itemsize
    size_bytes = max(1, array_bytes)
    try:
        pointer: int = runtime.hostAlloc(size_bytes, _PORTABLE)
    except runtime.CUDARuntimeError as error:
        raise DeviceFailure(f"{size_bytes} bytes of page-locked memory: {error}") from error
    memory = (ctypes.c_uint8 * size_bytes).from_address(pointer)
    end = pointer + size_bytes
    insort(_locked, (pointer, end))
    weakref.finalize(memory, _free, pointer, end).atexit = False  # the driver's end frees it
    used = np.ctypeslib.as_array(memory)[:array_bytes]
    array: Matrix = used.view(items).reshape(shape)
    return array


@contextlib.contextmanager
def lock_matrix(matrix: Matrix) -> Iterator[Matrix]:
    """Page-lock the memory of a matrix that is there already, for as long as the context lasts.

    On an H200's host this takes 23 ms a GiB, and its end 13: it is worth it for matrices that are
    used several times. Memory mapped from a file on disk cannot be locked.

    Raises:
        OperandError: The elements do not lie close together.
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
    """Page-lock memory that is there already, for all GPUs, until `unlock_region`.

    A matrix that lies in the region is known to be page-locked; one that lies in two regions is
    not, as no copy may span both. The interpreter's lock is free meanwhile.

    Args:
        address: Where it begins.
        size_bytes: Its length, below 512 GiB.
        device_index: The GPU whose context does it; None for the calling thread's current one.

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
    """End what `lock_region` began, with the same arguments. No copy may be under way there.

    Raises:
        DeviceFailure: CUDA refuses, as it does when its context is broken.
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


def find_address(matrix: Matrix) -> int:
    """Where the first element lies."""
    address: int = matrix.__array_interface__["data"][0]  # in less time than by matrix.ctypes
    return address


def has_adjacent_rows(matrix: Matrix) -> bool:
    """Whether CUDA copies it as it lies: rows of adjacent elements, one behind the other."""
    (rows, columns), (row_stride, column_stride) = matrix.shape, matrix.strides
    if columns > 1 and column_stride != matrix.itemsize:
        return False
    return bool(rows <= 1 or row_stride >= columns * matrix.itemsize)


def is_locked(matrix: Matrix, address: int) -> bool:
    """As `is_pinned`, of a matrix whose first element is known to lie at `address`."""
    if not has_adjacent_rows(matrix):
        return False
    rows, columns = matrix.shape
    last = address + (rows - 1) * matrix.strides[0] + columns * matrix.itemsize - 1
    if (end := _find_locked_end(address)) is not None:  # CUDA takes some microseconds to tell
        return bool(last < end)
    ask = find_runtime().pointerGetAttributes
    return bool(ask(address).type == _HOST and ask(last).type == _HOST)


def _find_locked_end(address: int) -> int | None:
    """The end of the region locked here that the address lies in; None where it lies in none."""
    behind = bisect_left(_locked, (address + 1, 0))
    for begin, end in _locked[max(0, behind - 1) : behind]:
        if begin <= address < end:
            return end
    return None


def _free(pointer: int, end: int) -> None:
    _locked.remove((pointer, end))
    find_runtime().freeHost(pointer)
