"""A product without its memory: checked, laid out and cut once for all matrices like its own."""

from functools import lru_cache
from struct import pack
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from wavetrim.cpu.blocks import Block, cut_blocks, cut_depth, is_small
from wavetrim.cpu.operands import lay_out
from wavetrim.cpu.products import DTYPES
from wavetrim.native.element_types import find_dtype

NATIVE_DTYPES: Final = tuple(
    find_dtype(name) for name in ("float32", "float64", "complex64", "complex128", "bfloat16")
)
"""Element types that the C threads multiply, in the order of calls.h."""

Layout: TypeAlias = tuple[type, np.dtype[Any], tuple[int, ...], tuple[int, ...]]
"""Class, element type, shape and strides of a matrix."""

_KINDS: Final = (np.ndarray, np.memmap)


class Cut(NamedTuple):
    """The blocks of a product.

    Attributes:
        blocks: An array of `Block` (calls.h).
        blocks_count: Number of blocks.
        depths: Number of parts that K is cut into.
    """

    blocks: bytes
    blocks_count: int
    depths: int


@lru_cache(maxsize=1024)
def pack_blocks(m: int, n: int, k: int, threads: int) -> Cut:
    """Cut a product into blocks, packed for C.

    Args:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        threads: Threads that will take the blocks.
    """
    deep = cut_depth(m, n, k, threads=threads)
    blocks = deep or cut_blocks(m, n, k, threads=threads)
    return Cut(b"".join(map(_pack_block, blocks)), len(blocks), max(1, len(deep)))


def _pack_block(block: Block) -> bytes:
    return pack(
        "=6q",
        *(block.row_start, block.row_stop, block.column_start, block.column_stop),
        *(block.depth_start, block.depth_stop),
    )


class Fields(NamedTuple):
    """What C is told of a product, apart from addresses and factors.

    Attributes:
        numbers: The whole numbers of `PRODUCT`.
        item: Bytes of an element. Each matrix must begin at a multiple.
        spans: Bytes from the first element of A, B and C to the end of the last.
        largest: The largest number that BLAS is given.
    """

    numbers: tuple[int, ...]
    item: int
    spans: tuple[int, int, int]
    largest: int


@lru_cache(maxsize=1024)
def find_fields(a: Layout, b: Layout, c: Layout) -> Fields | None:
    """The fields of a product whose shapes fit; None if BLAS does not accept it."""
    dtype, (k, n), item = c[1], b[2], c[1].itemsize
    if dtype not in NATIVE_DTYPES or k < 1 or not all(map(min, (c[2], b[2]))):
        return None
    strides: list[int] = []
    spans: list[int] = []
    for kind, _, shape, given in (a, b, c):
        usable = lay_out(shape, given, item) if kind in _KINDS else None
        if usable is None:
            return None
        strides += usable
        spans.append(item + (shape[0] - 1) * usable[0] + (shape[1] - 1) * usable[1])
    numbers = *strides, n, k, item, NATIVE_DTYPES.index(dtype)
    return Fields(numbers, item, (spans[0], spans[1], spans[2]), max(*a[2], *b[2], *strides))


class Prepared(NamedTuple):
    """A whole product.

    Attributes:
        is_small: Whether NumPy computes it in the calling thread.
        fields: What C is told of any other product.
        cut: The blocks of any other product.
    """

    is_small: bool
    fields: Fields | None = None
    cut: Cut | None = None


@lru_cache(maxsize=1024)
def prepare(a: Layout, b: Layout, c: Layout, threads: int) -> Prepared | None:
    """Prepare a product for some threads.

    Returns:
        None if it does not fit, or is neither small nor computed by C threads.
    """
    dtype = c[1]
    if not len(a[2]) == len(b[2]) == len(c[2]) == 2 or not a[1] == b[1] == dtype in DTYPES:
        return None
    (m, k), n = a[2], b[2][1]
    if b[2][0] != k or c[2] != (m, n) or not m * n * k:
        return None
    if is_small(m, n, k, dtype.name):
        return Prepared(is_small=True)
    fields = find_fields(a, b, c)
    return fields and Prepared(False, fields, pack_blocks(m, n, k, threads))
