"""A product without addresses and factors: checked, laid out and cut once for each layout."""

from functools import lru_cache
from struct import pack
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from wavetrim.cpu.blocks import cut_blocks, cut_depth, is_small, is_streamed
from wavetrim.cpu.operands import lay_out
from wavetrim.cpu.products import DTYPES
from wavetrim.native.element_types import BLAS_DTYPES, find_dtype
from wavetrim.native.plain import Matrix

NATIVE_DTYPES: Final = tuple(
    find_dtype(name) for name in ("float32", "float64", "complex64", "complex128", "bfloat16")
)
"""Element types that the C threads multiply, in the order of calls.h."""

Layout: TypeAlias = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]
"""Element type, shape and strides of a matrix."""


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
    dtype, c_shape, _ = c
    if not len(a[1]) == len(b[1]) == len(c_shape) == 2 or not a[0] == b[0] == dtype in DTYPES:
        return None
    (m, k), n = a[1], b[1][1]
    if b[1][0] != k or c_shape != (m, n) or not m * n * k:
        return None
    if is_small(m, n, k, dtype.name):
        return Prepared(is_small=True)
    if dtype not in NATIVE_DTYPES:
        return None
    item = dtype.itemsize
    usable: list[int] = []
    spans: list[int] = []
    for _, (rows, columns), given in (a, b, c):
        strides = lay_out((rows, columns), given, item)
        if strides is None:
            return None
        usable += strides
        spans.append(item + (rows - 1) * strides[0] + (columns - 1) * strides[1])
    deep = cut_depth(m, n, k, threads=threads)
    by_rows = dtype in BLAS_DTYPES and usable[-1] == item
    streams = by_rows and not deep and is_streamed(m, n, k, item)
    numbers = *usable, n, k, item, NATIVE_DTYPES.index(dtype), streams
    blocks = deep or cut_blocks(m, n, k, threads=threads)
    return Prepared(
        False, numbers, item, tuple(spans), max(m, n, k, *usable),
        b"".join(pack("=6q", *block) for block in blocks), len(blocks), max(1, len(deep)),
    )  # fmt: skip


def describe_layout(matrix: Matrix) -> Layout:
    """The layout of a matrix."""
    return matrix.dtype, matrix.shape, matrix.strides
