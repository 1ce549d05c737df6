"""Plain operands: row-major matrices of one shape and element type, which short paths take."""

import ctypes
from typing import Any, Final, TypeAlias, cast

from numpy.typing import NDArray

from wavetrim.native.element_types import find_dtype

Matrix: TypeAlias = NDArray[Any]
Addresses: TypeAlias = tuple[int, int, int]

_view, _find = cast("Any", ctypes.c_char.from_buffer), ctypes.addressof
_REFUSED: Final = (TypeError, ValueError, BufferError)  # read-only, empty, not contiguous, bfloat16


def find_address(array: Matrix) -> int:
    """Address of an array's first element, in a quarter of the time of `array.ctypes.data`."""
    try:
        return _find(_view(array))
    except _REFUSED:
        address: int = array.__array_interface__["data"][0]
        return address


def find_addresses(a: Matrix, b: Matrix, c: Matrix) -> Addresses:
    """Addresses of the operands of a product."""
    try:
        return _find(_view(a)), _find(_view(b)), _find(_view(c))
    except _REFUSED:
        return find_address(a), find_address(b), find_address(c)


class PlainOperands:
    """The condition for short paths: row-major operands of one shape and type, C by itself.

    Args:
        shape: M, N and K.
        dtype: Name of the element type.
    """

    def __init__(self, shape: tuple[int, int, int], dtype: str) -> None:
        m, n, k = shape
        self.shapes, self.dtype = ((m, k), (k, n), (m, n)), find_dtype(dtype)

    def locate(
        self, a: Matrix, b: Matrix, c: Matrix, addresses: Addresses | None = None
    ) -> Addresses | None:
        """Addresses of A, B and C; None if they do not meet the condition.

        One long function, because calls of Python would take most of its time.

        Args:
            a: A.
            b: B.
            c: C.
            addresses: The addresses, if they are known.
        """
        a_flags, b_flags, c_flags = a.flags, b.flags, c.flags
        if (a.shape, b.shape, c.shape) != self.shapes or not c_flags.writeable:
            return None
        if not (a.dtype is b.dtype is c.dtype is self.dtype):
            return None
        if not (a_flags.c_contiguous and b_flags.c_contiguous and c_flags.c_contiguous):
            return None
        found = addresses or find_addresses(a, b, c)
        at_a, at_b, at_c = found
        c_end = at_c + c.nbytes
        if at_a < c_end and at_c < at_a + a.nbytes:
            return None
        return None if at_b < c_end and at_c < at_b + b.nbytes else found
