"""The operands of a product in device memory."""

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.element_types import find_dtype

DeviceArray: TypeAlias = Any
"""A cupy.ndarray; Any, because CuPy is not imported at module level."""

VECTOR_BYTES: Final = 16
"""Longest access of a thread; bulk copies begin at multiples of it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A row-major matrix in device memory: address, shape, leading dimension in elements.

    Attributes:
        padding: Unused elements after each row, which a copy may overwrite; 0 if they belong to
            another matrix.
    """

    pointer: int
    rows: int
    columns: int
    leading_dimension: int
    item_bytes: int
    padding: int = 0

    @property
    def is_aligned(self) -> bool:
        """Whether every row begins at a multiple of 16 bytes."""
        stride_bytes = self.leading_dimension * self.item_bytes
        return self.pointer % VECTOR_BYTES == 0 and stride_bytes % VECTOR_BYTES == 0

    def cut(self, rows: range, columns: range) -> "Layout":
        """A part of the matrix."""
        skipped = rows.start * self.leading_dimension + columns.start
        pointer = self.pointer + skipped * self.item_bytes
        padding = self.padding if len(columns) == self.columns else 0
        return replace(self, pointer=pointer, rows=len(rows), columns=len(columns), padding=padding)


@dataclass(frozen=True, slots=True)
class Product:
    """C ← αA·B + βC over `k` columns of A. k is 0 when α is 0, so that A and B are not read."""

    a: Layout
    b: Layout
    c: Layout
    k: int
    alpha: float
    beta: float


def describe_product(
    spec: KernelSpec, operands: tuple[DeviceArray, ...], alpha: float, beta: float
) -> Product:
    """Describe a product, and check that its operands fit the kernel and each other."""
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
    return Product(a, b, c, a.columns if alpha != 0 else 0, alpha, beta)


def _describe_layout(spec: KernelSpec, name: str, array: DeviceArray) -> Layout:
    if array.dtype != find_dtype(spec.dtype):
        raise OperandError(f"dtype of {name} is {array.dtype.name}; it must be {spec.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise OperandError(f"shape of {name} is {array.shape}; it must be (rows, columns), none 0")
    rows, columns = array.shape
    item_bytes = array.itemsize
    if columns > 1 and array.strides[1] != item_bytes:
        raise OperandError(
            f"column stride of {name} is {array.strides[1]} bytes; it must be {item_bytes}"
        )
    # The row stride of a single row is arbitrary in NumPy.
    stride_bytes = array.strides[0] if rows > 1 else columns * item_bytes
    if stride_bytes < columns * item_bytes or stride_bytes % item_bytes:
        raise OperandError(
            f"row stride of {name} is {stride_bytes} bytes; it must be a multiple of {item_bytes}, "
            f"at least {columns * item_bytes}"
        )
    return Layout(int(array.data.ptr), rows, columns, stride_bytes // item_bytes, item_bytes)
