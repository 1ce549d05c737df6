"""Finds a request's matrices in memory: in slabs of the arena, or in files.

Sizes, offsets and strides are not trusted. They are Python integers, which cannot overflow: with
fixed-width integers a huge matrix could pass for a small one.
"""

import os
import stat
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_dtype
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import SchedulerError, SlabError
from wavetrim.scheduler.product import EngineProduct

_MOST_BYTES: Final = 2**62
"""More than NumPy counts in an array, even in one without elements."""


class OperandFileError(SchedulerError):
    """A file that an operand cannot be mapped from. Another try may find it whole."""

    def __init__(self, path: str, limit: str) -> None:
        super().__init__(f"slab is {path!r}; it must be {limit}")


def open_product(request: RunRequest, slabs: MappedSlabs | None) -> EngineProduct:
    """A request's product, as it is stored; the errors are those of `open_operand`."""
    return EngineProduct(
        out=open_operand(request.out, slabs, writable=True),
        a=open_operand(request.a, slabs),
        b=open_operand(request.b, slabs),
        c=open_operand(request.c, slabs) if request.c is not None and request.beta != 0 else None,
        alpha=request.alpha,
        beta=request.beta,
    )


def open_operand(operand: Operand, slabs: MappedSlabs | None, *, writable: bool = False) -> Matrix:
    """The matrix of an operand, or its stack. Links are not followed.

    Raises:
        OSError: The file does not exist, is a link, or cannot be opened.
        OperandFileError: It is no regular file, or too short for the matrix.
        SlabError: The slab does not exist, or the matrix does not lie within it.
    """
    if operand.stack is not None:
        # In either order, the stack is one matrix of all rows.
        whole = operand._replace(rows=operand.stack * operand.rows, stack=None)
        opened = open_operand(whole, slabs, writable=writable)
        order: Literal["F", "C"] = "F" if operand.fortran_order else "C"
        return opened.reshape(operand.shape, order=order, copy=False)
    if not isinstance(operand.slab, str):
        assert slabs is not None, "slabs are named where there are some"
        return view_memory(operand, slabs.find_memory(operand.slab), writable=writable)
    if operand.strides_bytes is not None:
        raise SlabError("strides_bytes", operand.strides_bytes, "left out for a matrix in a file")
    return _map_file(operand, operand.slab, writable=writable)


def _map_file(operand: Operand, path: str, *, writable: bool) -> Matrix:
    dtype = find_dtype(operand.dtype)
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    opened = os.open(path, flags | os.O_NONBLOCK)
    try:
        end = operand.offset_bytes + operand.rows * operand.columns * dtype.itemsize
        _check_file(path, os.fstat(opened), end)
        with os.fdopen(opened, "r+b" if writable else "rb", closefd=False) as file:
            return np.memmap(
                file,
                dtype=dtype,
                mode="r+" if writable else "r",
                offset=operand.offset_bytes,
                shape=(operand.rows, operand.columns),
                order="F" if operand.fortran_order else "C",
            )
    finally:
        os.close(opened)


def _check_file(path: str, found: os.stat_result, least_bytes: int) -> None:
    """Refuse what cannot be mapped, and a short file: `memmap` would make a writable one longer."""
    if not stat.S_ISREG(found.st_mode):
        raise OperandFileError(path, "a regular file")
    if found.st_size < least_bytes:
        limit = f"a file of at least {least_bytes} bytes: it has {found.st_size}"
        raise OperandFileError(path, limit)


def view_memory(
    operand: Operand, memory: memoryview | NDArray[np.uint8], *, writable: bool = False
) -> Matrix:
    """The matrix of an operand, as a view of the memory in which it lies.

    Raises:
        SlabError: It does not lie within that, or is no matrix; the error names the field.
    """
    elements = find_dtype(operand.dtype)
    if elements.hasobject or not elements.itemsize:
        raise SlabError("dtype", elements.str, "a type of numbers")
    _, offset_bytes, rows, columns, *_ = operand
    item_bytes = elements.itemsize
    for name, count in (("rows", rows), ("columns", columns)):
        if count < 0:
            raise SlabError(name, count, "at least 0")
        if not (rows and columns) and count * item_bytes >= _MOST_BYTES:
            raise SlabError(name, count, "one that arrays without elements have, too")
    down, across = strides = _find_strides(operand, item_bytes)
    span_bytes = (rows - 1) * down + (columns - 1) * across + item_bytes if rows and columns else 0
    last = memory.nbytes - span_bytes
    if last < 0:
        limit = f"that of a matrix of at most {memory.nbytes} bytes; it spans {span_bytes}"
        raise SlabError("offset_bytes", offset_bytes, limit)
    if not 0 <= offset_bytes <= last or offset_bytes % item_bytes:
        raise SlabError("offset_bytes", offset_bytes, f"a multiple of {item_bytes} in 0…{last}")
    matrix: Matrix = np.ndarray((rows, columns), elements, memory, offset_bytes, strides)
    matrix.flags.writeable = writable
    return matrix


def _find_strides(operand: Operand, item_bytes: int) -> tuple[int, int]:
    """Row and column stride, with which no element covers another: both are positive.

    Rows follow each other, or columns do, with or without gaps between them and their elements. The
    given stride of a single row or column is ignored.
    """
    rows, columns, strides_bytes = operand.rows, operand.columns, operand.strides_bytes
    if strides_bytes is None or not (rows and columns):
        line_bytes = item_bytes * (rows if operand.fortran_order else columns)
        return (item_bytes, line_bytes) if operand.fortran_order else (line_bytes, item_bytes)
    down, across = strides_bytes
    if columns == 1:
        across = item_bytes
    if rows == 1:
        down = columns * across
    for stride in (down, across):
        if stride < item_bytes or stride % item_bytes:
            limit = f"positive multiples of {item_bytes}, the size of an element"
            raise SlabError("strides_bytes", strides_bytes, limit)
    if rows > 1 and columns > 1:
        line = min(down, across) * ((columns if across <= down else rows) - 1) + item_bytes
        if max(down, across) < line:
            limit = f"at least {line} for the longer one, so that no element covers another"
            raise SlabError("strides_bytes", strides_bytes, limit)
    return down, across
