"""A product without addresses and factors: checked, laid out and cut once for each layout."""

from functools import lru_cache
from struct import pack
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from wavetrim.cpu.blocks import cut_blocks, cut_depth, is_small
from wavetrim.cpu.operands import lay_out
from wavetrim.cpu.products import DTYPES, Matrix
from wavetrim.native.element_types import find_dtype

NATIVE_DTYPES: Final = tuple(
    find_dtype(name) for name in ("float32", "float64", "complex64", "complex128", "bfloat16")
)
"""Element types that the C threads multiply, in the order of calls.h."""

Layout: TypeAlias = tuple[type, np.dtype[Any], tuple[int, ...], tuple[int, ...]]
"""Class, element type, shape and strides of a matrix."""

_KINDS: Final = (np.ndarray, np.memmap)


class Prepared(NamedTuple):
    """A whole product, apart from addresses and factors.

    Attributes:
        is_small: Whether NumPy computes it in the calling thread; then nothing else is set.
        numbers: The whole numbers of `PRODUCT`.
        item: Bytes of an element. Each matrix must begin at a multiple.
        spans: Bytes from the first element of A, B and C to the end of the last.
        largest: The largest number that BLAS is given.
        blocks: An array of `Block` (calls.h).
        blocks_count: Number of blocks.
        depths: Number of parts that K is cut into.
    """

    is_small: bool
    numbers: tuple[int, ...] = ()
    item: int = 0
    spans: tuple[int, ...] = ()
    largest: int = 0
    blocks: bytes = b""
    blocks_count: int = 0
    depths: int = 1


@lru_cache(maxsize=1024)
def prepare(a: Layout, b: Layout, c: Layout, threads: int) -> Prepared | None:
    """Prepare a product for this number of threads.

    Returns:
        None if the operands do not fit, or the product is neither small nor one for C threads.
    """
    dtype = c[1]
    if not len(a[2]) == len(b[2]) == len(c[2]) == 2 or not a[1] == b[1] == dtype in DTYPES:
        return None
    (m, k), n = a[2], b[2][1]
    if b[2][0] != k or c[2] != (m, n) or not m * n * k:
        return None
    if is_small(m, n, k, dtype.name):
        return Prepared(is_small=True)
    if dtype not in NATIVE_DTYPES or not all(one[0] in _KINDS for one in (a, b, c)):
        return None
    item = dtype.itemsize
    strides = [lay_out(shape, given, item) for _, _, shape, given in (a, b, c)]
    if None in strides:
        return None
    usable = [stride for pair in strides if pair is not None for stride in pair]
    spans = [
        item + (rows - 1) * down + (columns - 1) * across
        for (rows, columns), down, across in zip(
            (a[2], b[2], c[2]), usable[::2], usable[1::2], strict=True
        )
    ]
    numbers = *usable, n, k, item, NATIVE_DTYPES.index(dtype)
    deep = cut_depth(m, n, k, threads=threads)
    blocks = deep or cut_blocks(m, n, k, threads=threads)
    return Prepared(
        False, numbers, item, tuple(spans), max(m, n, k, *usable),
        b"".join(pack("=6q", *block) for block in blocks), len(blocks), max(1, len(deep)),
    )  # fmt: skip


def describe_layout(matrix: Matrix) -> Layout:
    """The layout of a matrix."""
    return type(matrix), matrix.dtype, matrix.shape, matrix.strides
