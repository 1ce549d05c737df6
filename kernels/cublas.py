"""Products by cuBLAS on the current device and stream."""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernels.catalog import KernelSpec
from kernels.errors import DeviceFailure, DeviceUnavailable, OperandError
from kernels.launch import count_sms
from kernels.operands import Product
from kernels.partitions import hold_stream

_MOST: Final = 2**31 - 1  # its sizes are 32 bits wide
_FAILED: Final = "EXECUTION_FAILED"
_NOT_TRANSPOSED: Final = 0
_DEFAULT_ALGORITHM: Final = -1
# cudaDataType_t, cublasComputeType_t, type of α and β. Pedantic: float32 never becomes TF32.
_TYPES: Final[dict[str, tuple[int, int, type[np.floating[Any]]]]] = {
    "float16": (2, 68, np.float32),
    "float32": (0, 69, np.float32),
    "float64": (1, 70, np.float64),
}


@lru_cache(maxsize=64)
def _place_factors(alpha: float, beta: float, dtype: str) -> tuple[NDArray[Any], int, int]:
    """Both factors in memory, and where: cuBLAS reads them before it returns."""
    factors = np.array([alpha, beta], _TYPES[dtype][2])
    pointer: int = factors.ctypes.data
    return factors, pointer, pointer + factors.itemsize


def launch_cublas(spec: KernelSpec, product: Product, sms: int | None = None) -> None:
    """Let cuBLAS, which is column-major, compute Cᵀ ← αBᵀ·Aᵀ + βCᵀ: the same memory, row-major.

    Held to some multiprocessors, it runs on a stream that has no others. Its own target for their
    number is left alone: told of one, it chooses a slower kernel, which runs on all.

    Args:
        spec: The entry.
        product: What it computes.
        sms: Multiprocessors that it is held to, the largest multiple of the entry's `sms_quantum`
            of them; None for all.

    Raises:
        OperandError: A size is too large for it, or it cannot be held to so few multiprocessors.
        DeviceFailure: It refuses the product.
        DeviceUnavailable: It is not installed, or the driver cannot hold it.
    """
    try:
        from cupy.cuda import cublas, device
    except ImportError as error:
        raise DeviceUnavailable(f"cuBLAS is not installed: {error}") from error
    a, b, c = product.a, product.b, product.c
    largest = max(a.leading_dimension, b.leading_dimension, c.leading_dimension, c.rows)
    if largest > _MOST:
        raise OperandError(f"a size is {largest}; cuBLAS takes at most {_MOST}")
    data_type, compute_type, _ = _TYPES[spec.dtype]
    _, alpha, beta = _place_factors(product.alpha, product.beta, spec.dtype)
    handle = device.get_cublas_handle()
    if sms is None or sms == count_sms():
        held: AbstractContextManager[object] = nullcontext()
    else:
        held = hold_stream(sms, spec.sms_quantum)
    try:
        with held:  # CuPy gives the handle the current stream at every call
            cublas.gemmEx(
                *(handle, _NOT_TRANSPOSED, _NOT_TRANSPOSED),
                *(c.columns, c.rows, product.k, alpha),
                *(b.pointer, data_type, b.leading_dimension),
                *(a.pointer, data_type, a.leading_dimension, beta),
                *(c.pointer, data_type, c.leading_dimension, compute_type, _DEFAULT_ALGORITHM),
            )
    except cublas.CUBLASError as error:
        raise DeviceFailure(f"{spec.label}: {error}", poisoned=_FAILED in str(error)) from error
