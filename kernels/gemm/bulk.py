"""Launches of the bulk kernel: tensor maps, division of tiles, memory for partial sums."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavetrim.kernels.gemm.launch import count_sms, load_functions, prepare_strict
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.partials import Partials, Workspace, allocate_partials
from wavetrim.kernels.gemm.prepared import Call, DriverCall, PreparedLaunch, prepare_kernel
from wavetrim.kernels.gemm.tails import Division, divide_tiles
from wavetrim.kernels.gemm.tensor_maps import MOST, align, encode_tensor_map
from wavetrim.kernels.spec import KernelSpec


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
        return PreparedLaunch(spec.label, prepare_strict(product, cache_dir, sms=sms))
    division = divide_tiles(tiles, -(-product.k // tile.k), sms or count_sms())
    try:
        (a, copy_a), (b, copy_b) = align(product.a), align(product.b)
        partials = _find_partials(spec, division, workspace)
    except Exception as error:
        from cupy.cuda.memory import OutOfMemoryError

        if not isinstance(error, OutOfMemoryError):
            raise
        calls = prepare_strict(product, cache_dir, sms=sms)
        return PreparedLaunch(spec.label, calls, lasting=False)
    multiply = _prepare_multiply(spec, replace(product, a=a, b=b), division, partials, cache_dir)
    copies: tuple[Call, ...] = (*copy_a, *copy_b)
    clearing = (partials.clearing,) if partials.clearing is not None else ()
    lasting = not copies and not clearing
    return PreparedLaunch(spec.label, (*copies, *clearing, multiply), lasting)


def _prepare_multiply(
    spec: KernelSpec, product: Product, division: Division, partials: Partials, cache_dir: Path
) -> DriverCall:
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


def _find_partials(spec: KernelSpec, division: Division, workspace: Workspace | None) -> Partials:
    """Memory for each block's partial sums and flag; none if no tile is shared."""
    if division.shared_tiles == 0:
        return Partials(0, 0, None, None)
    if workspace is None:
        return allocate_partials(spec, division.blocks)
    return workspace.find(spec, count_sms())
