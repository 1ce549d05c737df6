"""C ← αA·B + βC on arrays that are resident on a GPU."""

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from kernels.catalog import KernelSpec
from kernels.compile import compile_kernel
from kernels.device import name_arch
from kernels.errors import RECOVERABLE_STATUSES, DeviceFailure, DeviceUnavailable, OperandError

DeviceArray: TypeAlias = Any
"""A cupy.ndarray; Any, because CuPy is not there at import time."""

_MOST_BLOCKS: Final = 2**31 - 1  # gridDim.x
_MOST_OF_CUBLAS: Final = 2**31 - 1  # its sizes are 32 bits wide
_VECTOR_BYTES: Final = 16

_FAILED: Final = "EXECUTION_FAILED"
_NOT_TRANSPOSED: Final = 0
_DEFAULT_ALGORITHM: Final = -1
# cudaDataType_t, cublasComputeType_t, type of α and β. Pedantic: float32 never becomes TF32.
_CUBLAS_TYPES: Final[dict[str, tuple[int, int, type[np.floating[Any]]]]] = {
    "float16": (2, 68, np.float32),
    "float32": (0, 69, np.float32),
    "float64": (1, 70, np.float64),
}

_loaded: dict[tuple[KernelSpec, int, Path], tuple[Any, ...]] = {}
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a matrix lies in device memory."""

    pointer: int
    rows: int
    columns: int
    leading_dimension: int
    item_bytes: int

    @property
    def is_aligned(self) -> bool:
        """Whether every row begins at a multiple of 16 bytes."""
        stride_bytes = self.leading_dimension * self.item_bytes
        return self.pointer % _VECTOR_BYTES == 0 and stride_bytes % _VECTOR_BYTES == 0

    def skip_rows(self, rows: int) -> int:
        """Address of the row of that number."""
        return self.pointer + rows * self.leading_dimension * self.item_bytes


@dataclass(frozen=True, slots=True)
class _Product:
    """C ← αA·B + βC, with `k` columns of A: none when α is 0, so that A and B are not read."""

    a: _Layout
    b: _Layout
    c: _Layout
    k: int
    alpha: float
    beta: float


def multiply_on_device(
    spec: KernelSpec,
    a: DeviceArray,
    b: DeviceArray,
    c: DeviceArray,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    stream: Any = None,
    cache_dir: Path,
) -> None:
    """Enqueue C ← αA·B + βC; does not wait for it.

    As in BLAS, C is not read when β is 0, nor A and B when α is 0.

    Args:
        spec: The kernel.
        a: A[M, K], a cupy.ndarray of the kernel's element type. Like B and C it is row-major: unit
            column stride, any row stride of at least as many elements as there are columns.
        b: B[K, N], likewise.
        c: C[M, N], likewise; written in place. It may not overlap A or B.
        alpha: Factor of the product.
        beta: Factor of the old C.
        stream: The cupy.cuda.Stream to enqueue on; CuPy's current stream when None.
        cache_dir: Folder of compiled kernels.

    Raises:
        OperandError: Shapes, element types, strides or devices do not fit.
        CompilationFailed: The kernel does not compile for the device.
        DeviceFailure: CUDA or cuBLAS refuses the launch.
        DeviceUnavailable: cuBLAS is not installed.
    """
    import cupy

    product = _describe_product(spec, (a, b, c), alpha, beta)
    try:
        with cupy.cuda.Device(c.device.id), stream if stream is not None else nullcontext():
            if spec.source is None:
                _launch_cublas(spec, product)
            else:
                _launch(spec, product, cache_dir)
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        poisoned = error.status not in RECOVERABLE_STATUSES
        raise DeviceFailure(f"{spec.label}: {error}", poisoned=poisoned) from error


def _describe_product(
    spec: KernelSpec, operands: tuple[DeviceArray, ...], alpha: float, beta: float
) -> _Product:
    """The product, once its operands fit the kernel and one another."""
    a, b, c = (
        _describe_layout(spec, name, operand) for name, operand in zip("ABC", operands, strict=True)
    )
    if a.columns != b.rows or (a.rows, b.columns) != (c.rows, c.columns):
        shapes = ", ".join(
            f"{name} is {x.rows} x {x.columns}" for name, x in zip("ABC", (a, b, c), strict=True)
        )
        raise OperandError(f"{shapes}; they must be M x K, K x N and M x N")
    devices = [operand.device.id for operand in operands]
    if len(set(devices)) > 1:
        raise OperandError(f"A, B and C lie on devices {devices}; they must lie on one")
    return _Product(a, b, c, a.columns if alpha != 0 else 0, alpha, beta)


def _describe_layout(spec: KernelSpec, name: str, array: DeviceArray) -> _Layout:
    if array.dtype != np.dtype(spec.dtype):
        raise OperandError(f"dtype of {name} is {array.dtype.name}; it must be {spec.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise OperandError(f"shape of {name} is {array.shape}; it must be (rows, columns), none 0")
    rows, columns = array.shape
    item_bytes = array.itemsize
    if columns > 1 and array.strides[1] != item_bytes:
        raise OperandError(
            f"column stride of {name} is {array.strides[1]} bytes; it must be {item_bytes}"
        )
    # A matrix of one row has no row stride, and NumPy puts anything in its place.
    stride_bytes = array.strides[0] if rows > 1 else columns * item_bytes
    if stride_bytes < columns * item_bytes or stride_bytes % item_bytes:
        raise OperandError(
            f"row stride of {name} is {stride_bytes} bytes; it must be a multiple of {item_bytes}, "
            f"at least {columns * item_bytes}"
        )
    return _Layout(int(array.data.ptr), rows, columns, stride_bytes // item_bytes, item_bytes)


def _launch(spec: KernelSpec, product: _Product, cache_dir: Path) -> None:
    """Launch one of our kernels; several times, if C has more tiles than a grid has blocks."""
    a, b, c = product.a, product.b, product.c
    aligned = a.is_aligned and b.is_aligned and c.is_aligned
    function = _load_functions(spec, cache_dir)[0 if aligned else -1]
    real = np.dtype(spec.dtype).type
    for first, rows, blocks in split_grid(spec, c.rows, c.columns):
        arguments = (
            *(np.int64(rows), np.int64(c.columns), np.int64(product.k), real(product.alpha)),
            *(np.uint64(a.skip_rows(first)), np.int64(a.leading_dimension)),
            *(np.uint64(b.pointer), np.int64(b.leading_dimension), real(product.beta)),
            *(np.uint64(c.skip_rows(first)), np.int64(c.leading_dimension)),
        )
        function((blocks,), spec.block, arguments, shared_mem=spec.dynamic_shared_bytes)


def split_grid(
    spec: KernelSpec, rows: int, columns: int, most_blocks: int = _MOST_BLOCKS
) -> Iterator[tuple[int, int, int]]:
    """Cut the rows of C so that no grid exceeds `most_blocks` blocks.

    Yields:
        The first row, the number of rows, and the blocks that compute them.

    Raises:
        OperandError: One row of tiles alone has too many.
    """
    tiles_per_row = -(-columns // spec.tile.n)
    if tiles_per_row > most_blocks:
        limit = most_blocks * spec.tile.n
        raise OperandError(f"C has {columns} columns; {spec.label} computes at most {limit}")
    most_rows = most_blocks // tiles_per_row * spec.tile.m
    for first in range(0, rows, most_rows):
        taken = min(most_rows, rows - first)
        yield first, taken, -(-taken // spec.tile.m) * tiles_per_row


def _load_functions(spec: KernelSpec, cache_dir: Path) -> tuple[Any, ...]:
    """The kernel's functions on the current device, compiled and loaded once."""
    import cupy

    device = cupy.cuda.Device()
    key = (spec, device.id, cache_dir)
    with _loading:
        if key not in _loaded:
            major, minor = divmod(int(device.compute_capability), 10)
            compiled = compile_kernel(spec, name_arch((major, minor)), cache_dir)
            module = cupy.RawModule(path=str(compiled.path))
            functions = tuple(module.get_function(entry) for entry in spec.entries)
            for function in functions:
                if spec.dynamic_shared_bytes:
                    function.max_dynamic_shared_size_bytes = spec.dynamic_shared_bytes
            _loaded[key] = functions
        return _loaded[key]


def _launch_cublas(spec: KernelSpec, product: _Product) -> None:
    """Let cuBLAS, which is column-major, compute Cᵀ ← αBᵀ·Aᵀ + βCᵀ: the same memory, row-major."""
    try:
        from cupy.cuda import cublas, device
    except ImportError as error:
        raise DeviceUnavailable(f"cuBLAS is not installed: {error}") from error
    a, b, c = product.a, product.b, product.c
    largest = max(a.leading_dimension, b.leading_dimension, c.leading_dimension, c.rows)
    if largest > _MOST_OF_CUBLAS:
        raise OperandError(f"a size is {largest}; cuBLAS takes at most {_MOST_OF_CUBLAS}")
    data_type, compute_type, scalar = _CUBLAS_TYPES[spec.dtype]
    factors = np.array([product.alpha, product.beta], scalar)
    try:
        cublas.gemmEx(
            *(device.get_cublas_handle(), _NOT_TRANSPOSED, _NOT_TRANSPOSED),
            *(c.columns, c.rows, product.k, factors[0:].ctypes.data),
            *(b.pointer, data_type, b.leading_dimension),
            *(a.pointer, data_type, a.leading_dimension, factors[1:].ctypes.data),
            *(c.pointer, data_type, c.leading_dimension, compute_type, _DEFAULT_ALGORITHM),
        )
    except cublas.CUBLASError as error:
        raise DeviceFailure(f"{spec.label}: {error}", poisoned=_FAILED in str(error)) from error
