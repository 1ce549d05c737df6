"""Products by cuBLAS on the current device and stream."""

import ctypes
import os
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.errors import DeviceFailure, DeviceUnavailable, OperandError
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.prepared import Command, CommandKind, PreparedLaunch
from wavetrim.kernels.spec import KernelSpec

_MOST: Final = 2**31 - 1  # its sizes are 32 bits wide
_FAILED: Final = "EXECUTION_FAILED"
_NOT_TRANSPOSED: Final = 0
_DEFAULT_ALGORITHM: Final = -1
# cudaDataType_t, cublasComputeType_t, type of α and β. Pedantic: float32 never becomes TF32.
_TYPES: Final[dict[str, tuple[int, int, type[np.inexact[Any]]]]] = {
    "float16": (2, 68, np.float32),
    "bfloat16": (14, 68, np.float32),
    "float32": (0, 69, np.float32),
    "float64": (1, 70, np.float64),
    "complex64": (4, 69, np.complex64),
    "complex128": (5, 70, np.complex128),
}
HALVES: Final = ("float16", "bfloat16")
_DEFAULT_MODE: Final = 0
_EXACT_MODE: Final = 16
"""CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, for types of 16 bits. By default cuBLAS may
divide K among blocks and add their sums in the element type, which for bfloat16 is off by several
units in the last place. Longer types do not need it: 1024³ of float32 would take 78 µs, not 58."""


class CublasHandles:
    """Handles of cuBLAS on one stream, created when they are first needed.

    Args:
        stream: CuPy's stream, on the current device.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._handles: dict[int, int] = {}

    def find(self, dtype: str) -> int:
        """The handle for products of an element type; the stream's device must be current."""
        mode = find_mode(dtype)
        if mode not in self._handles:
            from cupy.cuda import cublas

            handle = self._handles[mode] = cublas.create()
            cublas.setStream(handle, self._stream.ptr)
            cublas.setMathMode(handle, mode)
        return self._handles[mode]

    def close(self) -> None:
        """Give them back."""
        while self._handles:
            from cupy.cuda import cublas

            cublas.destroy(self._handles.popitem()[1])


def find_mode(dtype: str) -> int:
    """The math mode for products of an element type."""
    return _EXACT_MODE if dtype in HALVES else _DEFAULT_MODE


def multiply_now(spec: KernelSpec, arguments: NDArray[np.int64]) -> None:
    """Enqueue a product by cuBLAS on CuPy's current stream.

    Args:
        spec: The catalog entry, for the message and the mode.
        arguments: Arguments of cublasGemmEx after the handle.

    Raises:
        DeviceFailure: cuBLAS refuses the product.
    """
    from cupy.cuda import cublas, device

    handle = device.get_cublas_handle()  # CuPy's, so its mode is restored
    before = cublas.getMathMode(handle)
    cublas.setMathMode(handle, find_mode(spec.dtype))
    try:
        cublas.gemmEx(handle, *arguments.tolist())
    except cublas.CUBLASError as error:
        poisoned = _FAILED in str(error)
        raise DeviceFailure(f"{spec.label}: {error}", poisoned=poisoned) from error
    finally:
        cublas.setMathMode(handle, before)


@cache
def find_gemm_address() -> int:
    """Address of cublasGemmEx in the library that CuPy has loaded.

    Raises:
        DeviceFailure: It is not found.
    """
    from cupy.cuda import cublas, device

    major = cublas.getVersion(device.get_cublas_handle()) // 10_000
    try:
        library = ctypes.CDLL(f"libcublas.so.{major}", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError as error:
        raise DeviceFailure(f"cuBLAS {major} is not where CuPy has loaded it: {error}") from error
    return ctypes.cast(library.cublasGemmEx, ctypes.c_void_p).value or 0


def find_arguments(spec: KernelSpec, product: Product) -> tuple[tuple[int, ...], NDArray[Any]]:
    """Arguments of cublasGemmEx after the handle, and the array of α and β to which they point.

    cuBLAS is column-major, so it computes Cᵀ ← αBᵀ·Aᵀ + βCᵀ, which is the same memory.

    Args:
        spec: The catalog entry.
        product: The product.

    Raises:
        OperandError: A size exceeds 32 bits.
    """
    a, b, c = product.a, product.b, product.c
    largest = max(a.leading_dimension, b.leading_dimension, c.leading_dimension, c.rows)
    if largest > _MOST:
        raise OperandError(f"a size is {largest}; cuBLAS takes at most {_MOST}")
    data_type, compute_type, scalar = _TYPES[spec.dtype]
    factors = np.array([product.alpha, product.beta], scalar)
    alpha: int = factors.ctypes.data
    arguments = (
        *(_NOT_TRANSPOSED, _NOT_TRANSPOSED, c.columns, c.rows, product.k, alpha),
        *(b.pointer, data_type, b.leading_dimension),
        *(a.pointer, data_type, a.leading_dimension, alpha + factors.itemsize),
        *(c.pointer, data_type, c.leading_dimension, compute_type, _DEFAULT_ALGORITHM),
    )
    return arguments, factors


def prepare_cublas(spec: KernelSpec, product: Product) -> PreparedLaunch:
    """Prepare a product by cuBLAS.

    Its stream limits the multiprocessors, if it is that of a green context. cuBLAS's own SM count
    target does not: it makes cuBLAS choose a slower kernel that still runs on all of them.

    Raises:
        OperandError: A size exceeds 32 bits.
        DeviceUnavailable: cuBLAS is not installed.
    """
    try:
        from cupy.cuda import cublas  # noqa: F401 -- only whether it is there
    except ImportError as error:
        raise DeviceUnavailable(f"cuBLAS is not installed: {error}") from error
    arguments, factors = find_arguments(spec, product)
    words = np.array(arguments, np.int64)
    command = Command(CommandKind.MULTIPLY, (words.ctypes.data,), (words, factors))
    return PreparedLaunch((command,))
