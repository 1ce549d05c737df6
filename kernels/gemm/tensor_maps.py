"""Tensor maps: descriptions of matrices for the bulk copy engine of Hopper and newer GPUs."""

import ctypes
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.gemm.operands import VECTOR_BYTES, Layout
from wavetrim.kernels.gemm.prepared import Command, CommandKind

MOST: Final = 2**31 - 1
"""Largest coordinate of a bulk copy."""

_MAP_WORDS: Final = 16


@lru_cache(maxsize=256)
def encode_tensor_map(
    matrix: Layout, box_rows: int, box_columns: int, *, swizzle_bytes: int = 0
) -> Any:
    """The tensor map of a matrix: a ctypes array that a kernel takes by value.

    Elements outside the matrix are copied as zeros.

    Args:
        matrix: The matrix, of elements of 2 or 4 bytes; its rows begin at multiples of 16 bytes.
        box_rows: Rows of one copy, at most 256.
        box_columns: Columns of one copy, at most 256; if swizzled, those of `swizzle_bytes`.
        swizzle_bytes: Length of the lines in shared memory that are swizzled, 64 or 128; 0 if none.

    Raises:
        DeviceFailure: The driver refuses it.
    """
    from cuda.bindings import driver

    kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    status, encoded = driver.cuTensorMapEncodeTiled(
        {
            2: kinds.CU_TENSOR_MAP_DATA_TYPE_UINT16,
            4: kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        }[matrix.item_bytes],
        2,
        matrix.pointer,
        [driver.cuuint64_t(matrix.columns), driver.cuuint64_t(matrix.rows)],
        [driver.cuuint64_t(matrix.leading_dimension * matrix.item_bytes)],
        [driver.cuuint32_t(box_columns), driver.cuuint32_t(box_rows)],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        {
            0: swizzles.CU_TENSOR_MAP_SWIZZLE_NONE,
            64: swizzles.CU_TENSOR_MAP_SWIZZLE_64B,
            128: swizzles.CU_TENSOR_MAP_SWIZZLE_128B,
        }[swizzle_bytes],
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFailure(f"no tensor map of {matrix}: {status}")
    return (ctypes.c_uint64 * _MAP_WORDS)(*(int(word) for word in encoded.opaque))


def align(matrix: Layout) -> tuple[Layout, tuple[Command, ...]]:
    """A matrix with rows at multiples of 16 bytes: itself, or a copy and the command that makes it.

    Raises:
        OutOfMemoryError: CuPy's; too little memory for the copy.
    """
    if matrix.is_aligned:
        return matrix, ()
    from cupy.cuda import alloc

    elements = VECTOR_BYTES // matrix.item_bytes
    stride = -(-matrix.columns // elements) * elements
    # The pool reuses freed memory only for later work on this stream.
    memory = alloc(matrix.rows * stride * matrix.item_bytes)
    row_bytes, from_bytes, to_bytes = (
        elements * matrix.item_bytes
        for elements in (matrix.columns, matrix.leading_dimension, stride)
    )
    words = matrix.pointer, memory.ptr, matrix.rows, row_bytes, from_bytes, to_bytes
    copy = Command(CommandKind.COPY_BETWEEN, words, memory)
    return replace(matrix, pointer=memory.ptr, leading_dimension=stride), (copy,)
