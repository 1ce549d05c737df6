"""Matrices in page-locked memory, which the GPU reads and writes by itself.

Copies between such memory and the device need no staging: they run at the link's rate, and no core
works for them.
"""

import contextlib
import ctypes
import weakref
from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.events import find_runtime
from wavetrim.kernels.memory import Matrix

_PORTABLE: Final = 1  # cudaHostAllocPortable and cudaHostRegisterPortable
_HOST: Final = 1  # cudaMemoryTypeHost

_locked: Final[dict[int, int]] = {}
"""Where the memory that was locked here begins and ends: entries go before the lock does."""


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
    _locked[pointer] = pointer + size_bytes
    weakref.finalize(memory, _free, pointer).atexit = False  # the driver's end frees it
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
    from cupy.cuda import runtime

    if not (matrix.flags.c_contiguous or matrix.flags.f_contiguous):
        raise OperandError(f"strides are {matrix.strides}; only contiguous memory can be locked")
    address, size_bytes = find_address(matrix), max(1, matrix.nbytes)
    try:
        runtime.hostRegister(address, size_bytes, _PORTABLE)
    except runtime.CUDARuntimeError as error:
        raise DeviceFailure(f"{matrix.nbytes} bytes cannot be page-locked: {error}") from error
    _locked[address] = address + size_bytes
    try:
        yield matrix
    finally:
        del _locked[address]
        runtime.hostUnregister(address)


def is_pinned(matrix: Matrix) -> bool:
    """Whether copies of this matrix need no staging: page-locked rows of adjacent elements."""
    return is_locked(matrix, find_address(matrix))


def find_address(matrix: Matrix) -> int:
    """Where the first element lies."""
    address: int = matrix.__array_interface__["data"][0]  # in less time than by matrix.ctypes
    return address


def is_locked(matrix: Matrix, address: int) -> bool:
    """As `is_pinned`, of a matrix whose first element is known to lie at `address`."""
    (rows, columns), (row_stride, column_stride) = matrix.shape, matrix.strides
    row_bytes = columns * matrix.itemsize
    if columns > 1 and column_stride != matrix.itemsize:
        return False
    if rows > 1 and row_stride < row_bytes:
        return False
    last = address + (rows - 1) * row_stride + row_bytes - 1
    if last < _locked.get(address, 0):  # CUDA takes some microseconds to tell
        return True
    ask = find_runtime().pointerGetAttributes
    return bool(ask(address).type == _HOST and ask(last).type == _HOST)


def _free(pointer: int) -> None:
    del _locked[pointer]
    find_runtime().freeHost(pointer)
