"""Launches of the bulk kernel: tensor maps, the division of the tiles, memory for partial sums."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from kernels.catalog import KernelSpec
from kernels.launch import count_sms, load_functions
from kernels.operands import Layout, Product
from kernels.strict import launch_strict
from kernels.tails import Division, divide_tiles
from kernels.tensor_map import encode_tensor_map

_MOST: Final = 2**31 - 1  # the copy engine's coordinates, and tiles, are 32 bits wide
_VECTOR_ELEMENTS: Final = 4
_FLAG_BYTES: Final = 4


def launch_bulk(spec: KernelSpec, product: Product, cache_dir: Path, sms: int | None) -> None:
    """Enqueue a product on at most `sms` multiprocessors; None for all.

    The copy engine needs rows that begin at multiples of 16 bytes; other A and B are copied first.
    The register kernel computes what cannot be numbered with 32 bits, what has no steps of k, and
    what there is no memory for.
    """
    tile, c = spec.tile, product.c
    tiles = -(-c.rows // tile.m) * -(-c.columns // tile.n)
    if product.k == 0 or max(c.rows, c.columns, product.k, tiles) > _MOST:
        launch_strict(product, cache_dir, sms=sms)
        return
    steps_k = -(-product.k // tile.k)
    division = divide_tiles(tiles, steps_k, sms or count_sms())
    try:
        # Memory that is let go of, as this is below, the pool lends to later work on this stream.
        a, b = _Aligned(product.a), _Aligned(product.b)
        partials = _Partials(spec, division)
    except Exception as error:
        from cupy.cuda.memory import OutOfMemoryError

        if not isinstance(error, OutOfMemoryError):
            raise
        launch_strict(product, cache_dir, sms=sms)
        return
    arguments = (
        *(np.int64(c.rows), np.int64(c.columns), np.int32(steps_k), np.float32(product.alpha)),
        encode_tensor_map(a.layout, tile.m, tile.k, swizzled=True),
        encode_tensor_map(b.layout, tile.k, tile.n, swizzled=False),
        *(np.float32(product.beta), np.uint64(c.pointer), np.int64(c.leading_dimension)),
        *(np.int32(division.shared_tiles), np.uint64(partials.sums), np.uint64(partials.flags)),
    )
    (multiply,) = load_functions(spec, cache_dir)
    multiply((division.blocks,), spec.block, arguments, shared_mem=spec.dynamic_shared_bytes)


class _Aligned:
    """A matrix whose rows begin at multiples of 16 bytes: a copy where they do not."""

    def __init__(self, matrix: Layout) -> None:
        self.layout = matrix
        if matrix.is_aligned:
            return
        from cupy.cuda import alloc, get_current_stream, runtime

        stride = -(-matrix.columns // _VECTOR_ELEMENTS) * _VECTOR_ELEMENTS
        self._memory = alloc(matrix.rows * stride * matrix.item_bytes)
        self.layout = replace(matrix, pointer=self._memory.ptr, leading_dimension=stride)
        runtime.memcpy2DAsync(
            *(self._memory.ptr, stride * matrix.item_bytes),
            *(matrix.pointer, matrix.leading_dimension * matrix.item_bytes),
            *(matrix.columns * matrix.item_bytes, matrix.rows),
            *(runtime.memcpyDeviceToDevice, get_current_stream().ptr),
        )


class _Partials:
    """Memory for each block's partial sums and its flag, which is 0; none if no tile is shared."""

    sums = 0
    flags = 0

    def __init__(self, spec: KernelSpec, division: Division) -> None:
        if division.shared_tiles == 0:
            return
        from cupy.cuda import alloc, get_current_stream, runtime

        sums_bytes = division.blocks * spec.tile.m * spec.tile.n * np.dtype(spec.dtype).itemsize
        flags_bytes = division.blocks * _FLAG_BYTES
        self._memory = alloc(sums_bytes + flags_bytes)
        self.sums, self.flags = self._memory.ptr, self._memory.ptr + sums_bytes
        runtime.memsetAsync(self.flags, 0, flags_bytes, get_current_stream().ptr)
