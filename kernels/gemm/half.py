"""Launches of the 16-bit tensor kernel: tensor maps, blocks in clusters."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.gemm.cublas import prepare_cublas
from wavetrim.kernels.gemm.launch import count_sms, load_functions
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.prepared import Command, PreparedLaunch, prepare_kernel
from wavetrim.kernels.gemm.tensor_maps import MOST, align, encode_tensor_map
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.tiling import ClusterTiling

_LINE: Final = 64  # elements of a swizzled line of 128 bytes


def prepare_half(
    spec: KernelSpec, product: Product, cache_dir: Path, *, sms: int | None
) -> PreparedLaunch:
    """Prepare a product on at most `sms` multiprocessors; None for all.

    Bulk copies need rows that begin at multiples of 16 bytes; other A and B are copied first. If
    memory for the copies is short, or a size plus a tile exceeds 32 bits, cuBLAS computes instead.

    Args:
        spec: The kernel.
        product: The product.
        cache_dir: Folder of compiled kernels.
        sms: Largest number of multiprocessors.
    """
    library = find_kernel("cublas", spec.dtype)
    tile, c = spec.tile, product.c
    tiles = -(-c.rows // tile.m) * -(-c.columns // tile.n)
    if max(c.rows + tile.m, c.columns + tile.n, product.k, 2 * tiles) > MOST:
        return prepare_cublas(library, product)
    try:
        (a, copy_a), (b, copy_b) = align(product.a), align(product.b)
    except Exception as error:
        from cupy.cuda.memory import OutOfMemoryError

        if not isinstance(error, OutOfMemoryError):
            raise
        return replace(prepare_cublas(library, product), lasting=False)
    blocks = count_blocks(spec, tiles, sms or count_sms())
    multiply = _prepare_multiply(spec, replace(product, a=a, b=b), blocks, cache_dir)
    copies = (*copy_a, *copy_b)
    return PreparedLaunch((*copies, multiply), lasting=not copies)


def count_blocks(spec: KernelSpec, tiles: int, sms: int) -> int:
    """The fewest blocks, in whole clusters, that need no more waves than `sms` blocks.

    Fewer busy multiprocessors draw less power, so the clock is higher.

    Args:
        spec: The kernel.
        tiles: Tiles of C.
        sms: Multiprocessors, at least those of a cluster.
    """
    assert isinstance(spec.tiling, ClusterTiling), "only these blocks form clusters"
    cluster = spec.tiling.cluster
    clusters, most = -(-tiles // cluster), sms // cluster
    waves = -(-clusters // most)
    return -(-clusters // waves) * cluster


def _prepare_multiply(spec: KernelSpec, product: Product, blocks: int, cache_dir: Path) -> Command:
    tile, c = spec.tile, product.c
    values: tuple[Any, ...] = (
        *(ctypes.c_int64(c.rows), ctypes.c_int64(c.columns)),
        *(ctypes.c_int32(-(-product.k // tile.k)), ctypes.c_float(product.alpha)),
        encode_tensor_map(product.a, tile.m, _LINE, swizzle_bytes=128),
        encode_tensor_map(product.b, tile.k, _LINE, swizzle_bytes=128),
        *(ctypes.c_float(product.beta), ctypes.c_uint64(c.pointer)),
        ctypes.c_int64(c.leading_dimension),
    )
    (function,) = load_functions(spec, cache_dir)
    return prepare_kernel(
        function, blocks, spec.block, values, shared_bytes=spec.dynamic_shared_bytes
    )
