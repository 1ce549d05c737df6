"""Finds a request's matrices in memory: in slabs of the arena, or in files."""

import os
import stat
from typing import Literal

import numpy as np

from wavetrim.native.element_types import find_dtype
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import SchedulerError, SlabError
from wavetrim.scheduler.product import EngineProduct, Matrix


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
        return slabs.locate(operand, writable=writable)
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
