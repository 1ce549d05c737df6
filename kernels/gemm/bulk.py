"""Launches of the bulk kernel: tensor maps, division of tiles, memory for partial sums."""

import ctypes
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.gemm.launch import count_sms, load_functions, prepare_strict
from wavetrim.kernels.gemm.operands import Layout, Product
from wavetrim.kernels.gemm.partials import Partials, Workspace, allocate_partials
from wavetrim.kernels.gemm.prepared import Call, DriverCall, PreparedLaunch, prepare_kernel
from wavetrim.kernels.gemm.tails import Division, divide_tiles

_MOST: Final = 2**31 - 1  # coordinates of bulk copies and numbers of tiles have 32 bits
_VECTOR_ELEMENTS: Final = 4
_MAP_WORDS: Final = 16


def prepare_bulk(
    spec: KernelSpec,
    product: Product,
    cache_dir: Path,
    *,
    sms: int | None,
    workspace: Workspace | None = None,
    number: int = 0,
) -> PreparedLaunch:
    """Prepare a product on at most `sms` multiprocessors; None for all.

    Bulk copies need rows that begin at multiples of 16 bytes; other A and B are copied first. The
    strict register kernel takes over where sizes exceed 32 bits, K is 0, or memory is short.

    Args:
        spec: The kernel.
        product: The product.
        cache_dir: Folder of compiled kernels.
        sms: Largest number of multiprocessors.
        workspace: Memory for partial sums; None to allocate from CuPy's pool.
        number: Index of the launch among those that share the workspace, from 0.
    """
    tile, c = spec.tile, product.c
    tiles = -(-c.rows // tile.m) * -(-c.columns // tile.n)
    if product.k == 0 or max(c.rows, c.columns, product.k, tiles) > _MOST:
        return PreparedLaunch(spec.label, prepare_strict(product, cache_dir, sms=sms))
    division = divide_tiles(tiles, -(-product.k // tile.k), sms or count_sms())
    try:
        # The pool reuses freed memory only for later work on this stream.
        (a, copy_a), (b, copy_b) = _align(product.a), _align(product.b)
        partials = _find_partials(spec, division, workspace, number)
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
    map_a = encode_tensor_map(product.a, tile.m, tile.k, swizzled=True)
    map_b = encode_tensor_map(product.b, tile.k, tile.n, swizzled=False)
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


@lru_cache(maxsize=256)
def encode_tensor_map(matrix: Layout, box_rows: int, box_columns: int, *, swizzled: bool) -> Any:
    """The tensor map of a float32 matrix: a ctypes array that a kernel takes by value.

    Elements outside the matrix are copied as zeros.

    Args:
        matrix: The matrix; its rows begin at multiples of 16 bytes.
        box_rows: Rows of one copy, at most 256.
        box_columns: Columns of one copy, at most 256; 16 if swizzled.
        swizzled: Whether to apply the 64-byte swizzle in shared memory.

    Raises:
        DeviceFailure: The driver refuses it.
    """
    from cuda.bindings import driver

    swizzle = driver.CUtensorMapSwizzle
    status, encoded = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        2,
        matrix.pointer,
        [driver.cuuint64_t(matrix.columns), driver.cuuint64_t(matrix.rows)],
        [driver.cuuint64_t(matrix.leading_dimension * matrix.item_bytes)],
        [driver.cuuint32_t(box_columns), driver.cuuint32_t(box_rows)],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle.CU_TENSOR_MAP_SWIZZLE_64B if swizzled else swizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFailure(f"no tensor map of {matrix}: {status}")
    return (ctypes.c_uint64 * _MAP_WORDS)(*(int(word) for word in encoded.opaque))


def _align(matrix: Layout) -> tuple[Layout, tuple[DriverCall, ...]]:
    """A matrix with rows at multiples of 16 bytes: itself, or a copy and the call that makes it."""
    if matrix.is_aligned:
        return matrix, ()
    from cupy.cuda import alloc, runtime

    stride = -(-matrix.columns // _VECTOR_ELEMENTS) * _VECTOR_ELEMENTS
    memory = alloc(matrix.rows * stride * matrix.item_bytes)
    ends = (
        *(memory.ptr, stride * matrix.item_bytes),
        *(matrix.pointer, matrix.leading_dimension * matrix.item_bytes),
    )
    size = matrix.columns * matrix.item_bytes, matrix.rows
    copy = DriverCall(
        runtime.memcpy2DAsync, (*ends, *size, runtime.memcpyDeviceToDevice), memory=memory
    )
    return replace(matrix, pointer=memory.ptr, leading_dimension=stride), (copy,)


def _find_partials(
    spec: KernelSpec, division: Division, workspace: Workspace | None, number: int
) -> Partials:
    """Memory for each block's partial sums and flag; none if no tile is shared."""
    if division.shared_tiles == 0:
        return Partials(0, 0, None, None)
    if workspace is None:
        return allocate_partials(spec, division.blocks)
    return workspace.find(spec, count_sms(), number)
