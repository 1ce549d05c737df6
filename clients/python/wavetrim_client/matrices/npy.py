"""The head of a .npy file, which is everything before the elements."""

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..wire.answer import Answer
from .element_types import read_dtype

MEDIA_TYPE: Final = "application/x-npy"

_MAGIC_BYTES: Final = 8
_MAX_HEAD_BYTES: Final = 10_012


@dataclass(frozen=True, slots=True)
class NpyHead:
    """The contents of a head.

    Attributes:
        shape: Rows and columns.
        dtype: Element type.
        fortran_order: True when the elements lie column after column.
        size_bytes: Length of the head itself.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    size_bytes: int

    def make_array(self) -> NDArray[Any]:
        """An array for the elements, in their order."""
        return np.empty(self.shape, self.dtype, order="F" if self.fortran_order else "C")

    def fits(self, array: NDArray[Any]) -> bool:
        """Whether an array can hold the elements as they are sent."""
        order = array.flags.f_contiguous if self.fortran_order else array.flags.c_contiguous
        return bool(order) and array.shape == self.shape and array.dtype == self.dtype


@lru_cache(maxsize=256)
def format_head(dtype: np.dtype[Any], shape: tuple[int, int], fortran_order: bool) -> bytes:
    """The head that `numpy.save` writes."""
    buffer = io.BytesIO()
    described = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": fortran_order,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


@lru_cache(maxsize=256)
def parse_head(head: bytes) -> NpyHead:
    """Read a whole head.

    Raises:
        ValueError: It is not the head of a .npy file.
    """
    buffer = io.BytesIO(head)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(np.lib.format.read_magic(buffer))
    if read is None:
        raise ValueError("version is another than 1.0 or 2.0")
    shape, fortran_order, dtype = read(buffer)
    if dtype.hasobject:
        raise ValueError(f"dtype is {dtype}; it must be a number")
    return NpyHead(shape, read_dtype(dtype), fortran_order, len(head))


def receive_head(answer: Answer) -> NpyHead:
    """Receive a head, and none of the elements after it.

    Raises:
        ValueError: The bytes are not a .npy file.
    """
    head = _receive_exactly(answer, _MAGIC_BYTES)
    length_bytes = 2 if head[6:7] == b"\1" else 4
    head += _receive_exactly(answer, length_bytes)
    rest_bytes = int.from_bytes(head[_MAGIC_BYTES:], "little")
    if len(head) + rest_bytes > _MAX_HEAD_BYTES:
        raise ValueError(f"its head has {rest_bytes} bytes, too many for a .npy file's")
    return parse_head(head + _receive_exactly(answer, rest_bytes))


def _receive_exactly(answer: Answer, count: int) -> bytes:
    head = bytearray(count)
    done = 0
    while done < count:
        received = answer.receive_into(memoryview(head)[done:])
        if received == 0:
            raise ValueError(f"it ends after {done} of {count} bytes")
        done += received
    return bytes(head)


def view_bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array of at least one element, as they lie in memory."""
    plain = array.view(np.ndarray)  # a `numpy.matrix` would stay two-dimensional
    return plain.reshape(-1, order="A").view(np.uint8).data
