"""Launches of the bulk kernel: tensor maps, division of tiles, memory for partial sums."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from wavetrim.kernels.gemm.launch import count_sms, load_functions, prepare_strict
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.prepared import Command, PreparedLaunch, prepare_kernel
from wavetrim.kernels.gemm.tails import Division, divide_tiles
from wavetrim.kernels.gemm.tensor_maps import MOST, align, encode_tensor_map
from wavetrim.kernels.spec import KernelSpec

_FLAG_BYTES: Final = 4
_SUM_BYTES: Final = 4  # a float32


class Partials(NamedTuple):
    """Memory in which the blocks of a launch exchange partial sums of a tile that they share.

    Attributes:
        sums: Address of one tile for each block.
        flags: Address of a 32-bit flag for each block, 0 when the launch begins.
        memory: CuPy's memory, kept alive.
    """

    sums: int = 0
    flags: int = 0
    memory: object = None


class Workspace:
    """Memory for the partial sums of all launches of one stream.

    A launch ends before the next begins, so they share it: for each multiprocessor a tile, together
    at most 17 MB on an H200, and a flag, which each launch leaves at 0.
    """

    def __init__(self) -> None:
        self._sums: Any = None
        self._flags: Any = None
        self._sums_bytes = 0

    def find(self, spec: KernelSpec, sms: int) -> Partials:
        """The memory for a launch in CuPy's current stream, allocated if necessary.

        Args:
            spec: The kernel.
            sms: Multiprocessors of the current device.

        Raises:
            OutOfMemoryError: CuPy's; not enough device memory.
        """
        from cupy.cuda import alloc, get_current_stream, runtime

        sums_bytes = sms * spec.tile.m * spec.tile.n * _SUM_BYTES
        if self._sums_bytes < sums_bytes:
            self._sums, self._sums_bytes = alloc(sums_bytes), sums_bytes
        if self._flags is None:
            size_bytes = sms * _FLAG_BYTES
            self._flags = alloc(size_bytes)
            runtime.memsetAsync(self._flags.ptr, 0, size_bytes, get_current_stream().ptr)
        return Partials(self._sums.ptr, self._flags.ptr, (self._sums, self._flags))

    def free(self) -> None:
        """Release the memory; it is freed when no launch uses it."""
        self._sums = self._flags = None
        self._sums_bytes = 0


def prepare_bulk(
    spec: KernelSpec,
    product: Product,
    cache_dir: Path,
    *,
    sms: int | None,
    workspace: Workspace | None = None,
) -> PreparedLaunch:
    """Prepare a product on at most `sms` multiprocessors; None for all.

    Bulk copies need rows that begin at multiples of 16 bytes; other A and B are copied first. If
    sizes exceed 32 bits, K is 0 or memory is short, the strict register kernel computes instead.

    Args:
        spec: The kernel.
        product: The product.
        cache_dir: Folder of compiled kernels.
        sms: Largest number of multiprocessors.
        workspace: Memory for partial sums; None to allocate from CuPy's pool.
    """
    tile, c = spec.tile, product.c
    tiles = -(-c.rows // tile.m) * -(-c.columns // tile.n)
    if product.k == 0 or max(c.rows, c.columns, product.k, tiles) > MOST:
        return PreparedLaunch((prepare_strict(product, cache_dir, sms=sms),))
    division = divide_tiles(tiles, -(-product.k // tile.k), sms or count_sms())
    try:
        (a, copy_a), (b, copy_b) = align(product.a), align(product.b)
        partials = Partials()
        if division.shared_tiles:
            partials = (workspace or Workspace()).find(spec, count_sms())
    except Exception as error:
        from cupy.cuda.memory import OutOfMemoryError

        if not isinstance(error, OutOfMemoryError):
            raise
        return PreparedLaunch((prepare_strict(product, cache_dir, sms=sms),), lasting=False)
    multiply = _prepare_multiply(spec, replace(product, a=a, b=b), division, partials, cache_dir)
    copies = (*copy_a, *copy_b)
    return PreparedLaunch((*copies, multiply), lasting=not copies)


def _prepare_multiply(
    spec: KernelSpec, product: Product, division: Division, partials: Partials, cache_dir: Path
) -> Command:
    tile, c = spec.tile, product.c
    map_a = encode_tensor_map(product.a, tile.m, tile.k, swizzle_bytes=64)
    map_b = encode_tensor_map(product.b, tile.k, tile.n)
    values: tuple[Any, ...] = (
        *(ctypes.c_int64(c.rows), ctypes.c_int64(c.columns)),
        *(ctypes.c_int32(-(-product.k // tile.k)), ctypes.c_float(product.alpha), map_a, map_b),
        *(ctypes.c_float(product.beta), ctypes.c_uint64(c.pointer)),
        *(ctypes.c_int64(c.leading_dimension), ctypes.c_int32(division.shared_tiles)),
        *(ctypes.c_uint64(partials.sums), ctypes.c_uint64(partials.flags)),
    )
    (function,) = load_functions(spec, cache_dir)
    return prepare_kernel(
        *(function, division.blocks, spec.block, values),
        shared_bytes=spec.dynamic_shared_bytes,
        memory=partials.memory,
    )
