"""cublasXt through ctypes: the part of libcublas that multiplies matrices in host memory."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from benchmarks.common.operands import Operands

_GEMM: Final = 0  # cublasXtBlasOp_t
_OP_TYPES: Final = {"float32": 0, "float64": 1}  # cublasXtOpType_t
_NOT_TRANSPOSED: Final = 0  # cublasOperation_t
_FUNCTIONS: Final = {"float32": "cublasXtSgemm", "float64": "cublasXtDgemm"}
_ROUTINES: Final = {"float32": "sgemm", "float64": "dgemm"}
_SCALARS: Final = {"float32": ctypes.c_float, "float64": ctypes.c_double}


class XtError(Exception):
    """cublasXt refused a call."""


class XtHandle:
    """A handle of cublasXt on some GPUs."""

    def __init__(self, devices: Sequence[int], library: Any = None) -> None:
        self._library = library or load_library()
        self._handle = ctypes.c_void_p()
        self._call("cublasXtCreate", ctypes.byref(self._handle))
        indices = (ctypes.c_int * len(devices))(*devices)
        self._call("cublasXtDeviceSelect", self._handle, len(devices), indices)

    def set_block(self, size: int) -> None:
        """The side of the square blocks that matrices are cut into."""
        self._call("cublasXtSetBlockDim", self._handle, size)

    def set_pinning(self, on: bool) -> None:
        """Whether it page-locks the matrices itself, for the time of each product."""
        self._call("cublasXtSetPinningMemMode", self._handle, int(on))

    def set_cpu_routine(self, dtype: str) -> None:
        """Give it SciPy's BLAS for the CPU's share."""
        pointer = find_cpu_routine(_ROUTINES[dtype])
        self._call("cublasXtSetCpuRoutine", self._handle, _GEMM, _OP_TYPES[dtype], pointer)

    def set_cpu_ratio(self, dtype: str, ratio: float) -> None:
        """The CPU's share of the product, 0…1."""
        self._call("cublasXtSetCpuRatio", self._handle, _GEMM, _OP_TYPES[dtype], ratio)

    def multiply(self, operands: Operands) -> None:
        """A·B into C; returns when it is complete.

        The library is column-major, so it computes Cᵀ = Bᵀ·Aᵀ: the same memory, row-major.
        """
        m, n, k = operands.shape
        scalar = _SCALARS[operands.dtype]
        alpha, beta = scalar(1.0), scalar(0.0)
        self._call(
            _FUNCTIONS[operands.dtype],
            *(self._handle, _NOT_TRANSPOSED, _NOT_TRANSPOSED, n, m, k),
            *(ctypes.byref(alpha), operands.b.ctypes.data, n, operands.a.ctypes.data, k),
            *(ctypes.byref(beta), operands.c.ctypes.data, n),
        )

    def close(self) -> None:
        """Give the handle back."""
        self._call("cublasXtDestroy", self._handle)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise XtError(f"{name}: status {status}")


def declare_functions(library: Any) -> None:
    """Declare the functions that are called here, as cublasXt.h does."""
    handle, pointer, size = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    gemm = (
        *(handle, ctypes.c_int, ctypes.c_int, size, size, size),
        *(pointer, pointer, size, pointer, size, pointer, pointer, size),
    )
    signatures: dict[str, tuple[Any, ...]] = {
        "cublasXtCreate": (pointer,),
        "cublasXtDestroy": (handle,),
        "cublasXtDeviceSelect": (handle, ctypes.c_int, ctypes.POINTER(ctypes.c_int)),
        "cublasXtSetBlockDim": (handle, ctypes.c_int),
        "cublasXtSetPinningMemMode": (handle, ctypes.c_int),
        "cublasXtSetCpuRoutine": (handle, ctypes.c_int, ctypes.c_int, pointer),
        "cublasXtSetCpuRatio": (handle, ctypes.c_int, ctypes.c_int, ctypes.c_float),
        **dict.fromkeys(_FUNCTIONS.values(), gemm),
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int


@cache
def load_library() -> ctypes.CDLL:
    """The library that CuPy has loaded, named by its version."""
    from cupy.cuda import cublas, device

    major = cublas.getVersion(device.get_cublas_handle()) // 10_000
    library = ctypes.CDLL(f"libcublas.so.{major}")
    declare_functions(library)
    return library


def find_cpu_routine(name: str) -> int:
    """Address of SciPy's sgemm or dgemm, with Fortran's arguments and 32-bit integers.

    Raises:
        XtError: SciPy's has integers of another width, which cublasXt does not pass.
    """
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = (ctypes.py_object,)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    signature = api.PyCapsule_GetName(capsule)
    if not signature.startswith(b"void (char *, char *, int *, int *, int *,"):
        raise XtError(f"SciPy's {name} is {signature.decode()}, not one with 32-bit integers")
    address: int = api.PyCapsule_GetPointer(capsule, signature)
    return address
