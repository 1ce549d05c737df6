"""Tensor maps: where a matrix lies, as Hopper's bulk copy engine wants it told."""

import ctypes
from functools import lru_cache
from typing import Any, Final

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.gemm.operands import Layout

_WORDS: Final = 16


@lru_cache(maxsize=256)
def encode_tensor_map(matrix: Layout, box_rows: int, box_columns: int, *, swizzled: bool) -> Any:
    """A map of a float32 matrix: an array of ctypes, to be passed to a kernel by value.

    What lies outside the matrix is copied as zeros.

    Args:
        matrix: The matrix; its rows begin at multiples of 16 bytes.
        box_rows: Rows that one copy takes, at most 256.
        box_columns: Columns that one copy takes, at most 256; 16 if swizzled.
        swizzled: Permute the chunks of 16 bytes of each 64-byte row in shared memory by the row.

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
    return (ctypes.c_uint64 * _WORDS)(*(int(word) for word in encoded.opaque))
